package pgstore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/store/pgstore/pgtest"
)

// both is a connection string with which whichever of the two is the primary is found.
func both(one, two *pgtest.Server) string {
	hosts := fmt.Sprintf("127.0.0.1:%d,127.0.0.1:%d", one.Port, two.Port)
	return strings.Replace(
		one.URL,
		fmt.Sprintf("127.0.0.1:%d", one.Port),
		hosts,
		1,
	) + "&target_session_attrs=read-write"
}

func TestStandby(t *testing.T) {
	if testing.Short() {
		t.Skip("starts new servers")
	}
	t.Parallel()
	primary := pgtest.NewServer(t)
	p := place{url: primary.URL, schema: "public", conns: 2}
	st := p.open(t)
	pgtest.Exec(t, pgtest.Connect(t, p.url), "CREATE TABLE effects (key text NOT NULL)")
	standby := pgtest.NewStandby(t, primary)
	t.Run("is refused", func(t *testing.T) { refusesAsStandby(t, st, primary, standby) })
	t.Run("is promoted and was behind", func(t *testing.T) { wasBehind(t, p, st, primary, standby) })
}

// A standby's records may be out of date. A caller that reads after a lost response must get the truth.
func refusesAsStandby(t *testing.T, on *pgstore.Store, primary, standby *pgtest.Server) {
	pending := reserve(t, on, claim("pending"), store.Acquired)
	standby.CatchUp(t, primary)
	_, err := pgstore.Open(t.Context(), standby.URL)
	require.ErrorIs(t, err, pgstore.ErrStandby)
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorContains(t, err, "target_session_attrs=read-write")
	_, err = pgstore.Open(t.Context(), standby.URL, pgstore.WithMigrate())
	require.ErrorIs(t, err, pgstore.ErrStandby)
	st, err := pgstore.New(pgtest.NewPool(t, standby.URL, 2))
	require.NoError(t, err)
	lockAsATransactionDoes(t, on, standby, claim("locked"))
	for name, call := range map[string]func() error{
		"Check":    func() error { return st.Check(t.Context()) },
		"Migrate":  func() error { return st.Migrate(t.Context()) },
		"Reserve":  func() error { _, err := st.Reserve(t.Context(), claim("new")); return err },
		"Replay":   func() error { _, err := st.Reserve(t.Context(), claim("pending")); return err },
		"Begin":    func() error { _, _, err := st.Begin(t.Context(), claim("new")); return err },
		"Locked":   func() error { _, _, err := st.Begin(t.Context(), claim("locked")); return err },
		"Look":     func() error { _, _, err := st.Begin(t.Context(), claim("pending")); return err },
		"Extend":   func() error { return st.Extend(t.Context(), pending.Lease, long, nil) },
		"Complete": func() error { return st.Complete(t.Context(), pending.Lease, store.Outcome{}) },
		"Lazy":     func() error { return st.Complete(t.Context(), pending.Lease, store.Outcome{Lazy: true}) },
		"Release":  func() error { return st.Release(t.Context(), pending.Lease) },
		"Forget":   func() error { return st.Forget(t.Context(), pending.Lease) },
		"Find":     func() error { _, err := st.Find(t.Context(), pending.Lease.ID); return err },
		"Absent":   func() error { _, err := st.Find(t.Context(), claim("new").ID); return err },
		"Wait":     func() error { return st.Wait(t.Context(), claim("new").ID, 1) },
		"Pending": func() error {
			for _, err := range st.Pending(t.Context(), "scope") {
				return err
			}
			return nil
		},
		"Purge": func() error { _, err := st.Purge(t.Context(), 1); return err },
	} {
		t.Run(name, func(t *testing.T) {
			err := call()
			require.ErrorIs(t, err, pgstore.ErrStandby)
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.NotErrorIs(t, err, store.ErrUnknown)
		})
	}

	// If the connection string names both, in any order, the store finds the primary.
	st, err = pgstore.Open(t.Context(), both(standby, primary))
	require.NoError(t, err)
	require.Equal(t, pending.Record.Fence, find(t, st, "pending").Fence)
	require.NoError(t, st.Close())
}

// lockAsATransactionDoes holds the locks of an ID in a session of the standby.
func lockAsATransactionDoes(t *testing.T, on *pgstore.Store, standby *pgtest.Server, c store.Claim) {
	tx, _ := begin(t, on, c, store.Acquired)
	locks := locksHeld(t, tx.Tx())
	require.NoError(t, tx.Rollback(t.Context()))
	_, err := pgtest.Connect(t, standby.URL).
		Exec(t.Context(), "SELECT pg_advisory_lock(n) FROM unnest($1::bigint[]) AS n", locks)
	require.NoError(t, err)
}
