package pgstore

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore/pgtest"
	"github.com/redo-go/redo/store/sqltx"
)

// A transaction without an id has written nothing, and commits without a record in the log.
func TestVerdictWithoutOwnershipWritesNothing(t *testing.T) {
	s, conn := withConn(t)
	claim := func(key string) store.Claim {
		return store.Claim{
			ID:        store.ID{Scope: "s", Key: key},
			Lease:     time.Hour,
			Retention: time.Hour,
			Meta:      []byte("meta"),
		}
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

	other := store.Raw("POST", "/other", "", nil)
	stale := store.Lease{ID: claim("in flight").ID, Fence: 1 << 62}
	reserves := func(c store.Claim, want store.Verdict) func(*pgx.Conn) error {
		return func(on *pgx.Conn) error {
			g, err := s.reserveOn(t.Context(), on, c)
			require.Equal(t, want, g.Verdict)
			return err
		}
	}
	mismatched := func(key string) store.Claim {
		c := claim(key)
		c.Fingerprint = other
		return c
	}
	changesNothing := func(text string, more ...any) func(*pgx.Conn) error {
		return func(on *pgx.Conn) error {
			tag, err := on.Exec(t.Context(), text, append(leaseArgs(stale), more...)...)
			require.Zero(t, tag.RowsAffected())
			return err
		}
	}
	for _, c := range []struct {
		name   string
		call   func(on *pgx.Conn) error
		writes bool
	}{
		{"replay", reserves(claim("complete"), store.Complete), false},
		{"replay of a failure", reserves(claim("failed"), store.Failed), false},
		{"in flight", reserves(claim("in flight"), store.InFlight), false},
		{"mismatch with a complete record", reserves(mismatched("complete"), store.Mismatch), false},
		{"mismatch with a pending record", reserves(mismatched("in flight"), store.Mismatch), false},
		{"find", func(on *pgx.Conn) error {
			_, err := scanFound(claim("complete").ID,
				on.QueryRow(t.Context(), s.sql.find, []byte("s"), []byte("complete")))
			return err
		}, false},
		{"stale complete", changesNothing(s.sql.complete, outcomeArgs(store.Outcome{})...), false},
		{"stale extend", changesNothing(s.sql.extend, sqltx.Micros(time.Hour), nil), false},
		{"stale release", changesNothing(s.sql.release), false},
		{"acquire", reserves(claim("new"), store.Acquired), true},
		{"acquire over an expired record", reserves(claim("expired"), store.Acquired), true},
		{"take-over", reserves(free, store.TakenOver), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			tx, err := conn.Begin(t.Context())
			require.NoError(t, err)
			defer tx.Rollback(context.WithoutCancel(t.Context()))
			require.NoError(t, c.call(conn))
			var wrote bool
			require.NoError(
				t,
				tx.QueryRow(t.Context(), "SELECT pg_current_xact_id_if_assigned() IS NOT NULL").Scan(&wrote),
			)
			require.Equal(t, c.writes, wrote)
		})
	}
}

func TestOnlyLazyOutcomeCommitsAsynchronously(t *testing.T) {
	s, conn := withConn(t)
	for lazy, text := range map[bool]string{false: s.sql.complete, true: s.sql.completeLazy} {
		g, err := s.Reserve(
			t.Context(),
			store.Claim{ID: store.ID{Key: text[:20]}, Lease: time.Hour, Retention: time.Hour},
		)
		require.NoError(t, err)
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		defer tx.Rollback(context.WithoutCancel(t.Context()))
		var before, after string
		require.NoError(t, tx.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&before))
		_, err = tx.Exec(t.Context(), text, append(leaseArgs(g.Lease), outcomeArgs(store.Outcome{})...)...)
		require.NoError(t, err)
		require.NoError(t, tx.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&after))
		require.NoError(t, tx.Commit(t.Context()))
		require.NotEqual(t, "off", before, "the server's own setting")
		if lazy {
			require.Equal(t, "off", after)
		} else {
			require.Equal(t, before, after)
		}
		// The setting ends with its transaction.
		require.NoError(t, conn.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&after))
		require.Equal(t, before, after)
	}
}

// With scans of the whole table forbidden, each statement still has a plan: it uses its index.
func TestStatementsUseTheirIndexes(t *testing.T) {
	s, conn := withConn(t)
	for text, want := range map[string]string{
		s.sql.find: "_pkey", s.sql.within: "_pkey", s.sql.purge: "_expiry", s.sql.reserve: "_pkey",
		s.sql.beginFind:      "_pkey",
		s.sql.reserveFreeing: "_expiry", s.sql.settleFreeing: "_expiry",
	} {
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), "SET LOCAL enable_seqscan = off; SET LOCAL plan_cache_mode = force_generic_plan")
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), "PREPARE statement AS "+text)
		require.NoError(t, err)
		var args string
		require.NoError(t, tx.QueryRow(t.Context(), `SELECT concat_ws(',', VARIADIC array_fill('NULL'::text,
			ARRAY[cardinality(parameter_types)])) FROM pg_prepared_statements WHERE name = 'statement'`).Scan(&args))
		rows, err := tx.Query(
			t.Context(),
			"EXPLAIN (COSTS OFF) EXECUTE statement("+args+")",
			pgx.QueryExecModeSimpleProtocol,
		)
		require.NoError(t, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		plan := strings.Join(lines, "\n")
		require.Contains(t, plan, "redo_records"+want)
		require.NotContains(t, plan, "Seq Scan")
		require.NoError(t, tx.Rollback(t.Context()))
		_, err = conn.Exec(t.Context(), "DEALLOCATE statement")
		require.NoError(t, err)
	}
}

// withConn returns a store, and a connection to its server.
func withConn(t *testing.T) (*Store, *pgx.Conn) {
	t.Helper()
	return testStore(t), pgtest.Connect(t, pgtest.URL(t))
}
