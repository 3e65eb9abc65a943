package pgstore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/store/pgstore/pgtest"
)

// Each of these is found by every statement that reads a record, through both engines.
func TestDamagedRow(t *testing.T) {
	for _, set := range []string{
		"fingerprint = ''", "state = 7", "fence = 0", "created_at = 'infinity'", "created_at = '-infinity'",
		"lease_until = 'infinity'", "lease_until = '-infinity'", "expires_at = 'infinity'",
	} {
		t.Run(set, func(t *testing.T) {
			p := newPlace(t)
			over := []store.Store{p.open(t), p.openSQL(t)}
			pgtest.Exec(t, pgtest.Connect(t, p.url), "ALTER TABLE "+p.table()+
				" DROP CONSTRAINT redo_records_fingerprint_check, DROP CONSTRAINT redo_records_state_check")
			id := reserve(t, over[0], unleased("k"), store.Acquired).Lease.ID
			reserve(t, over[0], unleased("other"), store.Acquired)
			p.damage(t, id, set)
			for _, st := range over {
				_, err := st.Find(t.Context(), id)
				isDamaged(t, err, id)
				_, err = st.Reserve(t.Context(), unleased("k"))
				isDamaged(t, err, id)
				if set == "state = 7" {
					continue // is not pending, so that no list has it
				}
				sound, damaged := 0, 0
				for r, err := range st.(store.Lister).Pending(t.Context(), "scope") {
					if err == nil {
						require.Equal(t, "other", r.ID.Key)
						sound++
						continue
					}
					isDamaged(t, err, id)
					require.Equal(t, store.Record{ID: id}, r)
					damaged++
				}
				require.Equal(t, 1, sound)
				require.Equal(t, 1, damaged)
			}
			tx, _, err := over[0].(*pgstore.Store).Begin(t.Context(), unleased("k"))
			isDamaged(t, err, id)
			require.Nil(t, tx)
			require.NoError(t, over[1].(store.Dropper).Drop(t.Context(), id))
			require.ErrorIs(t, over[0].(store.Dropper).Drop(t.Context(), id), store.ErrNotFound)
			reserve(t, over[0], unleased("k"), store.Acquired)
		})
	}
}

func isDamaged(t testing.TB, err error, id store.ID) {
	t.Helper()
	require.ErrorIs(t, err, store.ErrDamaged)
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorContains(t, err, id.String())
}

// A record that has expired is absent, damaged or not. An expiry of -infinity is past.
func TestDamagedRowThatHasExpiredIsAbsent(t *testing.T) {
	p := newPlace(t)
	st := p.open(t)
	for _, expiry := range []string{"now() - interval '1 hour'", "'-infinity'"} {
		id := reserve(t, st, unleased("k"), store.Acquired).Lease.ID
		p.damage(t, id, "created_at = '-infinity', expires_at = "+expiry)
		_, err := st.Find(t.Context(), id)
		require.ErrorIs(t, err, store.ErrNotFound)
		require.ErrorIs(t, st.Drop(t.Context(), id), store.ErrNotFound)
		l := reserve(t, st, unleased("k"), store.Acquired).Lease
		require.NoError(t, st.Release(t.Context(), l))
	}
}

func TestDropOnAClosedStore(t *testing.T) {
	st := newPlace(t).open(t)
	require.NoError(t, st.Close())
	require.ErrorIs(t, st.Drop(t.Context(), claim("k").ID), store.ErrUnavailable)
}
