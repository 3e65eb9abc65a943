package pgstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/store/pgstore/pgtest"
)

// rows counts the rows of the table, expired ones too.
func (p place) rows(t testing.TB) (n int) {
	t.Helper()
	require.NoError(t, pgtest.Connect(t, p.url).QueryRow(t.Context(), "SELECT count(*) FROM "+p.table()).Scan(&n))
	return n
}

// expired makes records that have expired, by another store.
func (p place) expired(t testing.TB, n int) {
	t.Helper()
	pgtest.Exec(
		t,
		pgtest.Connect(t, p.url),
		`INSERT INTO `+p.table()+` (scope, key, fingerprint, state, fence, born, created_at, expires_at)
		SELECT 'expired', convert_to(i::text, 'UTF8'), repeat('x', 33)::bytea, 2, i, i, now() - interval '2 hours',
			now() - interval '1 hour' + i * interval '1 second' FROM generate_series(1, $1::int) AS i`,
		n,
	)
}

func TestWriteOfANewRecordDeletesTwoExpiredOnes(t *testing.T) {
	for name, write := range map[string]func(t *testing.T, p place, key string){
		"Reserve": func(t *testing.T, p place, key string) { reserve(t, p.open(t), claim(key), store.Acquired) },
		"Commit": func(t *testing.T, p place, key string) {
			tx, _ := begin(t, p.open(t), claim(key), store.Acquired)
			require.NoError(t, tx.Commit(t.Context(), store.Outcome{}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.open(t)
			p.expired(t, 5)
			for i, want := range []int{4, 3, 3} { // 5+1-2, 4+1-2, 3+1-1
				write(t, p, fmt.Sprint(i))
				require.Equal(t, want, p.rows(t), "after %d writes", i+1)
			}
			write(t, p, "k")
			require.Equal(t, 4, p.rows(t), "nothing has expired any more")
		})
	}
}

// A service that makes short-lived records keeps few of them without a purge.
func TestTableDoesNotGrowWithoutAPurge(t *testing.T) {
	brief := store.Outcome{Retention: time.Microsecond}
	for name, write := range map[string]func(t *testing.T, st *pgstore.Store, c store.Claim){
		"Reserve": func(t *testing.T, st *pgstore.Store, c store.Claim) {
			c.Lease, c.Retention = 0, brief.Retention
			reserve(t, st, c, store.Acquired)
		},
		"Complete": func(t *testing.T, st *pgstore.Store, c store.Claim) {
			require.NoError(t, st.Complete(t.Context(), reserve(t, st, c, store.Acquired).Lease, brief))
		},
		"Commit": func(t *testing.T, st *pgstore.Store, c store.Claim) {
			tx, _ := begin(t, st, c, store.Acquired)
			require.NoError(t, tx.Commit(t.Context(), brief))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			st := p.open(t)
			for i := range 50 {
				write(t, st, claim(fmt.Sprint(i)))
			}
			require.LessOrEqual(t, p.rows(t), 2)
		})
	}
}

func TestVerdictWithoutANewRecordDeletesNothing(t *testing.T) {
	p := newPlace(t)
	reserve(t, p.open(t), claim("k"), store.Acquired)
	p.expired(t, 5)
	reserve(t, p.open(t), claim("k"), store.InFlight)
	require.Equal(t, 6, p.rows(t))
}
