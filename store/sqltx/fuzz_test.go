package sqltx_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/sqltx"
)

// A row of any values is a record that keeps them, is absent, or is refused as damaged.
func FuzzRow(f *testing.F) {
	f.Add(make([]byte, 33), []byte("owner"), []byte("result"), []byte("meta"),
		int64(2), int64(7), int64(5), int64(-1), true, true)
	f.Add(make([]byte, 32), []byte{}, []byte(nil), []byte(nil), int64(1), int64(-1), int64(0), int64(1)<<62, true, true)
	f.Add([]byte(nil), []byte{}, []byte(nil), []byte(nil), int64(1)<<40, int64(1), int64(0), int64(0), true, false)
	f.Add([]byte(nil), []byte{}, []byte(nil), []byte(nil), int64(0), int64(0), int64(0), int64(0), false, false)
	f.Fuzz(func(
		t *testing.T, fingerprint, owner, result, meta []byte, state, fence, created, until int64, found, born bool,
	) {
		row := sqltx.Row{
			Fingerprint: fingerprint, Owner: owner, Result: result, Meta: meta,
			State: sql.NullInt64{Int64: state, Valid: found}, Fence: sql.NullInt64{Int64: fence, Valid: found},
			LeaseUntil: sql.NullInt64{Int64: until, Valid: found},
			CreatedAt:  sql.NullInt64{Int64: created, Valid: born},
		}
		id, now := store.ID{Scope: "s", Key: "k"}, time.Unix(1, 0)
		rec, err := row.Record(id, now)
		switch {
		case !found:
			require.NoError(t, err)
			require.Equal(t, store.Record{}, rec)
		case err != nil:
			require.ErrorIs(t, err, store.ErrDamaged)
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.Equal(t, store.Record{}, rec)
			sound := len(fingerprint) == 33 && fence > 0 && born &&
				state >= int64(store.StatePending) && state <= int64(store.StateFailed)
			require.False(t, sound, "a sound row is refused: %v", err)
		default:
			require.Equal(t, string(fingerprint), string(rec.Fingerprint[:]))
			require.Equal(t, []int64{state, fence}, []int64{int64(rec.State), int64(rec.Fence)})
			require.Equal(t, []string{string(owner), string(result), string(meta)},
				[]string{rec.Owner, string(rec.Result), string(rec.Meta)})
			require.Equal(t, []int64{created, until}, []int64{rec.CreatedAt.UnixMicro(), rec.LeaseUntil.UnixMicro()})
		}
	})
}
