package pgstore

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
)

// Transitions run inside a transaction here, where Postgres says afterwards whether it had to give it an id. One
// without an id has written nothing, and commits without a record in the log.
func TestVerdictWithoutOwnershipWritesNothing(t *testing.T) {
	s := testStore(t)
	claim := func(key string) store.Claim {
		return store.Claim{ID: store.ID{Scope: "s", Key: key}, Lease: time.Hour, Retention: time.Hour, Meta: []byte("meta")}
	}
	grant := func(c store.Claim) store.Lease {
		g, err := s.Reserve(t.Context(), c)
		require.NoError(t, err)
		return g.Lease
	}
	grant(claim("in flight"))
	require.NoError(t, s.Complete(t.Context(), grant(claim("complete")), store.Outcome{Result: []byte("result")}))
	require.NoError(t, s.Complete(t.Context(), grant(claim("failed")), store.Outcome{Failed: true}))
	expired := claim("expired")
	expired.Lease, expired.Retention = 0, time.Microsecond
	grant(expired)
	free := claim("free")
	free.Lease = 0
	grant(free)

	held, _, err := s.Begin(t.Context(), claim("held"))
	require.NoError(t, err)
	defer held.Rollback(context.WithoutCancel(t.Context()))

	other := store.Raw("POST", "/other", "", nil)
	stale := store.Lease{ID: claim("in flight").ID, Fence: 1 << 62}
	reserves := func(c store.Claim, want store.Verdict) func(session) error {
		return func(on session) error {
			g, err := s.sql.reserveOn(t.Context(), on, c)
			require.Equal(t, want, g.Verdict)
			return err
		}
	}
	mismatched := func(key string) store.Claim {
		c := claim(key)
		c.Fingerprint = other
		return c
	}
	lost := func(err error) error {
		require.ErrorIs(t, err, store.ErrLost)
		return nil
	}
	for _, c := range []struct {
		name   string
		call   func(on session) error
		writes bool
	}{
		{"replay", reserves(claim("complete"), store.Complete), false},
		{"replay of a failure", reserves(claim("failed"), store.Failed), false},
		{"in flight", reserves(claim("in flight"), store.InFlight), false},
		{"mismatch with a complete record", reserves(mismatched("complete"), store.Mismatch), false},
		{"mismatch with a pending record", reserves(mismatched("in flight"), store.Mismatch), false},
		{"begin of a held id", func(on session) error {
			_, err := s.sql.reserveHeldOn(t.Context(), on, claim("held"))
			require.ErrorIs(t, err, errLostRace)
			return nil
		}, false},
		{"find", func(on session) error { _, err := s.sql.findOn(t.Context(), on, claim("complete").ID); return err }, false},
		{"stale complete", func(on session) error {
			return lost(completeOn(t.Context(), on, s.sql.complete, stale, store.Outcome{}))
		}, false},
		{"stale extend", func(on session) error { return lost(s.sql.extendOn(t.Context(), on, stale, time.Hour, nil)) }, false},
		{"stale release", func(on session) error { return lost(changeOn(t.Context(), on, s.sql.release, stale)) }, false},
		{"acquire", reserves(claim("new"), store.Acquired), true},
		{"acquire over an expired record", reserves(claim("expired"), store.Acquired), true},
		{"take-over", reserves(free, store.TakenOver), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			tx, err := poolOf(s).Begin(t.Context())
			require.NoError(t, err)
			defer tx.Rollback(context.WithoutCancel(t.Context()))
			require.NoError(t, c.call(pgxSession{on: tx}))
			var wrote bool
			require.NoError(t, tx.QueryRow(t.Context(), "SELECT pg_current_xact_id_if_assigned() IS NOT NULL").Scan(&wrote))
			require.Equal(t, c.writes, wrote)
		})
	}
}

func TestOnlyLazyOutcomeCommitsAsynchronously(t *testing.T) {
	s := testStore(t)
	for lazy, text := range map[bool]string{false: s.sql.complete, true: s.sql.completeLazy} {
		g, err := s.Reserve(t.Context(), store.Claim{ID: store.ID{Key: text[:20]}, Lease: time.Hour, Retention: time.Hour})
		require.NoError(t, err)
		tx, err := poolOf(s).Begin(t.Context())
		require.NoError(t, err)
		defer tx.Rollback(context.WithoutCancel(t.Context()))
		var before, after string
		require.NoError(t, tx.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&before))
		require.NoError(t, completeOn(t.Context(), pgxSession{on: tx}, text, g.Lease, store.Outcome{}))
		require.NoError(t, tx.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&after))
		require.NoError(t, tx.Commit(t.Context()))
		require.NotEqual(t, "off", before, "the server's own setting")
		if lazy {
			require.Equal(t, "off", after)
		} else {
			require.Equal(t, before, after)
		}
		// The setting ends with its transaction.
		require.NoError(t, poolOf(s).QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&after))
		require.Equal(t, before, after)
	}
}

// Each index serves the statement that it is for, whatever the table holds: with scans of the whole table forbidden,
// none is left.
func TestStatementsUseTheirIndexes(t *testing.T) {
	s := testStore(t)
	for text, want := range map[string]string{s.sql.find: "_pkey", s.sql.pending: "_pending", s.sql.purge: "_expiry", s.sql.reserve: "_pkey"} {
		conn, err := pgx.ConnectConfig(t.Context(), poolOf(s).Config().ConnConfig)
		require.NoError(t, err)
		defer conn.Close(context.WithoutCancel(t.Context()))
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), "SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off")
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), "PREPARE statement AS "+text)
		require.NoError(t, err)
		var args string
		require.NoError(t, tx.QueryRow(t.Context(), `SELECT concat_ws(',', VARIADIC array_fill('NULL'::text,
			ARRAY[cardinality(parameter_types)])) FROM pg_prepared_statements WHERE name = 'statement'`).Scan(&args))
		_, err = tx.Exec(t.Context(), "SET LOCAL plan_cache_mode = force_generic_plan")
		require.NoError(t, err)
		rows, err := tx.Query(t.Context(), "EXPLAIN (COSTS OFF) EXECUTE statement("+args+")", pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		plan := ""
		for _, l := range lines {
			plan += l + "\n"
		}
		require.Contains(t, plan, "redo_records"+want)
		require.NotContains(t, plan, "Seq Scan")
		require.NoError(t, tx.Rollback(t.Context()))
	}
}
