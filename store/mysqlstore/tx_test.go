package mysqlstore_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/mysqlstore"
	"github.com/redo-go/redo/store/mysqlstore/mysqltest"
	"github.com/redo-go/redo/store/sqltx"
)

// begun is an open transaction that has had one effect.
func begun(t *testing.T) (place, *mysqlstore.Store, store.Tx[*sqltx.Tx], store.Grant) {
	t.Helper()
	return begunOn(t, mysqltest.DSN(t))
}

func begunOn(t *testing.T, dsn string) (place, *mysqlstore.Store, store.Tx[*sqltx.Tx], store.Grant) {
	t.Helper()
	p := newPlace(t, dsn)
	st := p.open(t)
	p.exec(t, "CREATE TABLE effects (id_key VARCHAR(200) NOT NULL PRIMARY KEY, n INT NOT NULL DEFAULT 0)")
	tx, g, err := st.Begin(t.Context(), unleased("k"))
	require.NoError(t, err)
	require.Equal(t, store.Acquired, g.Verdict)
	run(t, tx, "INSERT INTO effects (id_key) VALUES ('k')")
	return p, st, tx, g
}

func run(t *testing.T, tx store.Tx[*sqltx.Tx], text string) {
	t.Helper()
	_, err := tx.Tx().ExecContext(t.Context(), text)
	require.NoError(t, err, text)
}

func (p place) effects(t *testing.T) int { return p.count(t, "SELECT COUNT(*) FROM effects") }

var endings = map[string]func(tx store.Tx[*sqltx.Tx], ctx context.Context) error{
	"Commit":   func(tx store.Tx[*sqltx.Tx], ctx context.Context) error { return tx.Commit(ctx, store.Outcome{}) },
	"Discard":  func(tx store.Tx[*sqltx.Tx], ctx context.Context) error { return tx.Discard(ctx, store.Outcome{}) },
	"Rollback": store.Tx[*sqltx.Tx].Rollback,
}

// The server commits before it changes a table, too.
func TestWorkThatAStatementCommittedIsOfUnknownOutcome(t *testing.T) {
	for name, end := range endings {
		for _, text := range []string{"COMMIT", "COMMIT AND CHAIN", "CREATE TABLE more (id INT)"} {
			t.Run(name+" after "+text, func(t *testing.T) {
				p, st, tx, g := begun(t)
				run(t, tx, text)
				err := end(tx, t.Context())
				require.ErrorIs(t, err, store.ErrTxEnded)
				require.ErrorIs(t, err, store.ErrUnknown)
				require.Equal(t, 1, p.effects(t))
				again := reserve(t, st, unleased("k"), store.Complete)
				require.True(t, again.Record.OutcomeUnknown())
				require.Greater(t, again.Record.Fence, g.Lease.Fence)
			})
		}
	}
}

// deadlock makes the transaction the victim of a deadlock.
func (p place) deadlock(t *testing.T, tx store.Tx[*sqltx.Tx]) {
	t.Helper()
	p.exec(t, "INSERT INTO effects (id_key) VALUES ('a'), ('d')")
	p.exec(t, `INSERT INTO effects (id_key) SELECT CONCAT('row ', table_name, column_name)
		FROM information_schema.columns LIMIT 100`)
	other, err := p.admin.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer other.Rollback()
	// It has changed more, so that it is not the victim.
	_, err = other.Exec("UPDATE effects SET n = n + 1 WHERE id_key = 'a' OR id_key LIKE 'row %'")
	require.NoError(t, err)
	run(t, tx, "UPDATE effects SET n = n + 1 WHERE id_key = 'd'")
	waits := make(chan error)
	go func() {
		_, err := other.Exec("UPDATE effects SET n = n + 1 WHERE id_key = 'd'")
		waits <- err
	}()
	_, err = tx.Tx().ExecContext(t.Context(), "UPDATE effects SET n = n + 1 WHERE id_key = 'a'")
	require.ErrorContains(t, err, "1213")
	require.NoError(t, <-waits)
	require.NoError(t, other.Commit())
}

// changedRow makes the transaction change a row that another one has changed since the snapshot. MariaDB can refuse it.
func (p place) changedRow(t *testing.T, tx store.Tx[*sqltx.Tx]) {
	t.Helper()
	if _, err := p.admin.Exec("SET SESSION innodb_snapshot_isolation = ON"); err != nil {
		t.Skip("MySQL has no such variable: ", err)
	}
	run(t, tx, "SET SESSION innodb_snapshot_isolation = ON")
	p.exec(t, "INSERT INTO effects (id_key) VALUES ('a')")
	run(t, tx, "SELECT COUNT(*) FROM effects")
	p.exec(t, "UPDATE effects SET n = 1 WHERE id_key = 'a'")
	_, err := tx.Tx().ExecContext(t.Context(), "UPDATE effects SET n = 2 WHERE id_key = 'a'")
	require.ErrorContains(t, err, "1020")
}

func TestADeadlockLeavesTheIDFree(t *testing.T)   { leavesTheIDFree(t, place.deadlock) }
func TestAChangedRowLeavesTheIDFree(t *testing.T) { leavesTheIDFree(t, place.changedRow) }

// InnoDB rolls the whole transaction back. That is no fault of the program. Nothing that the program writes later is
// kept.
func leavesTheIDFree(t *testing.T, fail func(p place, t *testing.T, tx store.Tx[*sqltx.Tx])) {
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			p, st, tx, _ := begun(t)
			fail(p, t, tx)
			run(t, tx, "INSERT INTO effects (id_key) VALUES ('later')")
			switch err := end(tx, t.Context()); name {
			case "Rollback":
				require.NoError(t, err)
			default:
				require.ErrorIs(t, err, store.ErrUnavailable)
				require.NotErrorIs(t, err, store.ErrUnknown)
			}
			require.Zero(t, p.count(t, "SELECT COUNT(*) FROM effects WHERE id_key IN ('k', 'later')"))
			reserve(t, st, unleased("k"), store.Acquired)
		})
	}
}

// The victim is not the store's transaction, which has been committed.
func TestADeadlockAfterACommitLeavesTheOutcomeUnknown(t *testing.T) {
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			p, st, tx, _ := begun(t)
			run(t, tx, "COMMIT AND CHAIN")
			p.deadlock(t, tx)
			err := end(tx, t.Context())
			require.ErrorIs(t, err, store.ErrTxEnded)
			require.ErrorIs(t, err, store.ErrUnknown)
			require.True(t, reserve(t, st, unleased("k"), store.Complete).Record.OutcomeUnknown())
		})
	}
}

func TestARefusedRollbackUndoesTheWork(t *testing.T) {
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			p, st, tx, _ := begun(t)
			require.ErrorIs(t, tx.Tx().Rollback(), store.ErrTxEnded)
			err := end(tx, t.Context())
			if name == "Rollback" {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, store.ErrTxEnded)
				require.NotErrorIs(t, err, store.ErrUnknown)
			}
			require.Zero(t, p.effects(t))
			reserve(t, st, unleased("k"), store.Acquired)
		})
	}
}

func TestReserveOfAHeldIDIsInFlightAtOnce(t *testing.T) {
	p, st, tx, _ := begun(t)
	other := p.open(t)
	for _, handle := range []*mysqlstore.Store{st, other} {
		require.Equal(t, store.ID{Scope: "scope", Key: "k"}, reserve(t, handle, claim("k"), store.InFlight).Record.ID)
	}
	require.NoError(t, tx.Rollback(t.Context()))
	reserve(t, other, claim("k"), store.Acquired)
}

// The later one has found the ID free. It does not wait for the lock.
func TestTheLaterOfTwoTransactionsIsInFlight(t *testing.T) {
	p, st, l := onALine(t)
	other := p.open(t)
	var tx store.Tx[*sqltx.Tx]
	l.lose.Store(&loss{text: "GET_LOCK", done: true, open: func() {
		var err error
		tx, _, err = other.Begin(t.Context(), unleased("k"))
		require.NoError(t, err)
	}})
	later, g, err := st.Begin(t.Context(), unleased("k"))
	require.NoError(t, err)
	require.Nil(t, later)
	require.Equal(t, store.InFlight, g.Verdict)
	require.Equal(t, claim("k").ID, g.Record.ID)
	require.NoError(t, tx.Rollback(t.Context()))
	beginSoon(t, st, "k")
}

// A transaction that has taken over holds a row. IDs on both sides of it are not affected.
func TestNeighborsOfAHeldRowAreFree(t *testing.T) {
	p := newPlace(t, mysqltest.DSN(t))
	st := p.open(t)
	reserve(t, st, unleased("k"), store.Acquired)
	released := reserve(t, st, claim("m"), store.Acquired).Lease
	require.NoError(t, st.Release(t.Context(), released))
	for key, want := range map[string]store.Verdict{"k": store.TakenOver, "m": store.Acquired, "o": store.Acquired} {
		tx, g, err := st.Begin(t.Context(), unleased(key))
		require.NoError(t, err)
		require.Equal(t, want, g.Verdict)
		defer tx.Rollback(context.Background())
	}
	for _, key := range []string{"j", "ka", "l", "lz", "ma", "n", "oa", "p"} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		g, err := st.Reserve(ctx, claim(key))
		require.NoError(t, err, key)
		require.NoError(t, st.Complete(ctx, g.Lease, store.Outcome{}), key)
		cancel()
	}
	require.Zero(t, p.count(t, "SELECT COUNT(*) FROM redo_records WHERE id_key = ''"), "a draw leaves no row")
}

// A session that ends without a word leaves nothing held.
func TestDeadSessionHoldsNothing(t *testing.T) {
	p, st, tx, g := begun(t)
	var session int64
	require.NoError(t, tx.Tx().QueryRow("SELECT CONNECTION_ID()").Scan(&session))
	p.exec(t, fmt.Sprint("KILL ", session)) // MySQL 9 takes no parameter there
	require.Greater(t, beginSoon(t, st, "k").Lease.Fence, g.Lease.Fence)
	require.ErrorIs(t, tx.Commit(t.Context(), store.Outcome{}), store.ErrUnavailable)
	require.Zero(t, p.effects(t))
}

// After each ending the pool's connection holds no lock and no transaction.
func TestConnectionComesBackClean(t *testing.T) {
	for name, end := range endings {
		p := newPlace(t, mysqltest.DSN(t))
		p.conns = 1
		st := p.open(t)
		for _, key := range []string{"a", "b"} {
			tx, _, err := st.Begin(t.Context(), unleased(key))
			require.NoError(t, err)
			require.NoError(t, end(tx, t.Context()), name)
		}
		other := p.open(t)
		tx, g, err := other.Begin(t.Context(), unleased("c"))
		require.NoError(t, err)
		require.Equal(t, store.Acquired, g.Verdict)
		require.NoError(t, tx.Rollback(t.Context()))
		require.Zero(t, p.count(t, "SELECT COUNT(*) FROM information_schema.innodb_trx"), name)
	}
}

// A caller with one connection would wait for it, and any other would open one more.
func TestConnectionIsBackInThePoolWhenATransactionHasEnded(t *testing.T) {
	p := newPlace(t, mysqltest.DSN(t))
	db := p.pool(t, p.dsn)
	st, err := mysqlstore.New(db)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	require.NoError(t, st.Migrate(t.Context()))
	for name, end := range endings {
		for n := range 50 {
			tx, _, err := st.Begin(t.Context(), unleased(fmt.Sprint(name, n)))
			require.NoError(t, err)
			require.NoError(t, end(tx, t.Context()))
			require.Zero(t, db.Stats().InUse, "after %s %d", name, n)
			require.Equal(t, 1, db.Stats().OpenConnections, "after %s %d", name, n)
		}
	}
}

// An ending context shows its end to the functions of AfterFunc, and to no statement.
type ending struct {
	context.Context
	done  chan struct{}
	ended atomic.Bool
	funcs []func()
}

func (c *ending) Done() <-chan struct{} { return c.done }

func (c *ending) Err() error {
	if c.ended.Load() {
		return context.Canceled
	}
	return nil
}

func (c *ending) AfterFunc(f func()) func() bool {
	c.funcs = append(c.funcs, f)
	return func() bool { return true }
}

// The end of the context has rolled back. The handler would get a transaction that is over.
func TestATransactionWhoseContextEndsInItsLastMomentHasNotBegun(t *testing.T) {
	_, st, l := onALine(t)
	ctx := &ending{Context: t.Context(), done: make(chan struct{})}
	l.lose.Store(&loss{text: "SAVEPOINT", done: true, open: func() {
		ctx.ended.Store(true)
		for _, f := range ctx.funcs {
			f()
		}
	}})
	_, _, err := st.Begin(ctx, unleased("k"))
	require.ErrorIs(t, err, context.Canceled)
	beginSoon(t, st, "k")
}

// By default a lock that is not granted in time undoes its statement, and the handler may go on. With
// innodb_rollback_on_timeout InnoDB rolls the whole transaction back. Nothing that the program writes later is kept.
func TestALockTimeoutThatRollsBackLeavesTheIDFree(t *testing.T) {
	for _, dsn := range []string{mysqltest.Private(t, "--innodb-rollback-on-timeout").DSN, mysqltest.DSN(t)} {
		for name, end := range endings {
			t.Run(name, func(t *testing.T) {
				p, st, tx, _ := begunOn(t, dsn)
				whole := p.count(t, "SELECT @@innodb_rollback_on_timeout") == 1
				run(t, tx, "SET SESSION innodb_lock_wait_timeout = 1")
				p.exec(t, "INSERT INTO effects (id_key) VALUES ('locked')")
				other, err := p.admin.BeginTx(t.Context(), nil)
				require.NoError(t, err)
				defer other.Rollback()
				_, err = other.Exec("UPDATE effects SET n = 1 WHERE id_key = 'locked'")
				require.NoError(t, err)
				_, err = tx.Tx().ExecContext(t.Context(), "UPDATE effects SET n = 2 WHERE id_key = 'locked'")
				require.ErrorContains(t, err, "1205")
				run(t, tx, "INSERT INTO effects (id_key) VALUES ('later')")
				err = end(tx, t.Context())
				want, verdict := 0, store.Acquired
				switch {
				case !whole:
					require.NoError(t, err)
					if name != "Rollback" {
						verdict = store.Complete
					}
					if name == "Commit" {
						want = 2
					}
				case name == "Rollback":
					require.NoError(t, err)
				default:
					require.ErrorIs(t, err, store.ErrUnavailable)
					require.NotErrorIs(t, err, store.ErrUnknown)
				}
				require.Equal(t, want, p.count(t, "SELECT COUNT(*) FROM effects WHERE id_key IN ('k', 'later')"))
				reserve(t, st, unleased("k"), verdict)
			})
		}
	}
}
