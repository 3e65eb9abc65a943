package sqltx_test

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/sqltx"
)

var (
	id  = store.ID{Scope: "scope", Key: "key"}
	now = time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC)
)

func sound() sqltx.Row {
	return sqltx.Row{
		Fingerprint: make([]byte, len(store.Fingerprint{})), Owner: []byte("owner"), Meta: sqltx.Bytes{},
		State: number(1), Fence: number(7), LeaseUntil: number(3), CreatedAt: number(1), ExpiresAt: number(9),
	}
}

func number(n int64) sql.NullInt64 { return sql.NullInt64{Int64: n, Valid: true} }

func TestRowIsARecord(t *testing.T) {
	row := sound()
	rec, err := row.Record(id, now)
	require.NoError(t, err)
	require.Equal(t, store.Record{
		ID: id, State: store.StatePending, Meta: []byte{}, Owner: "owner", Fence: 7, ReadAt: now,
		LeaseUntil: time.UnixMicro(3).UTC(), CreatedAt: time.UnixMicro(1).UTC(), ExpiresAt: time.UnixMicro(9).UTC(),
	}, rec)
	row.LeaseUntil, row.ExpiresAt = sql.NullInt64{}, sql.NullInt64{}
	row.State, row.Fence = number(int64(store.StateFailed)), number(1)
	rec, err = row.Record(id, now)
	require.NoError(t, err)
	require.Zero(t, rec.LeaseUntil)
	require.Zero(t, rec.ExpiresAt)
}

func TestAbsentRowIsTheZeroRecord(t *testing.T) {
	rec, err := (&sqltx.Row{}).Record(id, now)
	require.NoError(t, err)
	require.Zero(t, rec)
}

func TestRowThatBreaksARuleIsDamaged(t *testing.T) {
	for name, spoil := range map[string]func(*sqltx.Row){
		"a short fingerprint": func(r *sqltx.Row) { r.Fingerprint = r.Fingerprint[1:] },
		"a state of zero":     func(r *sqltx.Row) { r.State = number(0) },
		"a state of four":     func(r *sqltx.Row) { r.State = number(4) },
		"a fence of zero":     func(r *sqltx.Row) { r.Fence = number(0) },
		"a negative fence":    func(r *sqltx.Row) { r.Fence = number(-1) },
		"no time of creation": func(r *sqltx.Row) { r.CreatedAt = sql.NullInt64{} },
	} {
		row := sound()
		spoil(&row)
		_, err := row.Record(id, now)
		require.ErrorIs(t, err, store.ErrDamaged, name)
		require.ErrorIs(t, err, store.ErrUnavailable, name)
		require.ErrorContains(t, err, id.String(), name)
	}
}

func TestBytesTellNilFromEmpty(t *testing.T) {
	var b sqltx.Bytes
	require.NoError(t, b.Scan([]byte(nil)))
	require.NotNil(t, b)
	require.Empty(t, b)
	require.NoError(t, b.Scan(nil))
	require.Nil(t, b)
	from := []byte("bytes")
	require.NoError(t, b.Scan(from))
	clear(from)
	require.Equal(t, "bytes", string(b))
	require.Error(t, b.Scan(1))
}

func TestSnapshotOfAnID(t *testing.T) {
	rec, err := (&sqltx.Row{}).Record(id, now)
	require.NoError(t, err)
	absent := sqltx.Snapshot{Record: rec, At: now}
	row := sound()
	row.ExpiresAt = number(now.UnixMicro() + 1)
	rec, err = row.Record(id, now)
	require.NoError(t, err)
	present := sqltx.Snapshot{Record: rec, At: now}
	expired := sqltx.Snapshot{Record: rec, At: now.Add(time.Microsecond)}

	found, err := present.Find()
	require.NoError(t, err)
	require.Equal(t, rec, found)
	for _, gone := range []sqltx.Snapshot{absent, expired} {
		found, err = gone.Find()
		require.ErrorIs(t, err, store.ErrNotFound)
		require.Zero(t, found)
	}

	require.NoError(t, absent.RefuseDrop(id, fmt.Errorf("k: %w", store.ErrDamaged)))
	require.ErrorIs(t, absent.RefuseDrop(id, nil), store.ErrNotFound)
	require.ErrorIs(t, absent.RefuseDrop(id, sql.ErrNoRows), store.ErrNotFound)
	require.ErrorIs(t, absent.RefuseDrop(id, sql.ErrConnDone), sql.ErrConnDone)
	require.ErrorIs(t, present.RefuseDrop(id, nil), store.ErrInvalid)
	require.ErrorIs(t, expired.RefuseDrop(id, nil), store.ErrInvalid)
}

// A transaction holds an ID in every state, but a settled record and another payload are known without it.
func TestSnapshotJudgesAClaim(t *testing.T) {
	c := store.Claim{ID: id, Retention: time.Minute}
	row := sound()
	row.ExpiresAt = sql.NullInt64{}
	pending, err := row.Record(id, now)
	require.NoError(t, err)
	settled := pending
	settled.State = store.StateComplete
	for name, at := range map[string]struct {
		snapshot sqltx.Snapshot
		want     store.Grant
	}{
		"no record":     {sqltx.Snapshot{At: now}, store.Grant{Verdict: store.Acquired}},
		"without lease": {sqltx.Snapshot{Record: pending, At: now}, store.Grant{Verdict: store.TakenOver}},
		"settled": {
			sqltx.Snapshot{Record: settled, At: now, Held: true},
			store.Grant{Verdict: store.Complete, Record: settled},
		},
		"held": {
			sqltx.Snapshot{Record: pending, At: now, Held: true},
			store.Grant{Verdict: store.InFlight, Record: store.Record{ID: id, State: store.StatePending, ReadAt: now}},
		},
	} {
		require.Equal(t, at.want, at.snapshot.Judge(c), name)
	}
}

func TestDurationsAreRoundedUp(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		0: 0, 1: 1, time.Microsecond: 1, time.Microsecond + 1: 2, time.Hour: 3_600_000_000,
		store.Forever - 1: 9_223_372_036_854_776, store.Forever - 1_000: 9_223_372_036_854_775, store.Forever: -1,
	} {
		require.Equal(t, want, sqltx.Micros(d), d)
	}
}

func TestClaimedRecord(t *testing.T) {
	c := store.Claim{
		ID: id, Fingerprint: store.Raw("POST", "/", "", nil), Lease: time.Minute, Retention: time.Second,
		Owner: "new", Meta: []byte("new"),
	}
	made := sqltx.Claimed(store.Record{}, store.Acquired, c, 8, now)
	require.Equal(t, store.Record{
		ID: id, Fingerprint: c.Fingerprint, State: store.StatePending, Meta: []byte("new"), Owner: "new", Fence: 8,
		LeaseUntil: now.Add(time.Minute), CreatedAt: now, ExpiresAt: now.Add(time.Minute), ReadAt: now,
	}, made, "the record never expires before its lease ends")

	c.Lease, c.Retention, c.Meta = 0, store.Forever, []byte("later")
	later := now.Add(time.Hour)
	taken := sqltx.Claimed(made, store.TakenOver, c, 9, later)
	made.Fence, made.LeaseUntil, made.ExpiresAt, made.ReadAt = 9, time.Time{}, time.Time{}, later
	require.Equal(t, made, taken, "meta and creation time stay")
}
