package pgstore_test

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/racetest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/store/pgstore/pgtest"
	"github.com/redo-go/redo/store/storetest"
)

// Modes of a connection string that work behind a pooler which keeps no prepared statements.
const (
	byExec     = "exec"
	bySimple   = "simple_protocol"
	byDescribe = "cache_describe"
)

// Each handle of a case uses another protocol, and the handles share the few connections of one pooler. Each case
// has a new table.
func TestContractBehindAPooler(t *testing.T) {
	racetest.Repeats(t)
	t.Parallel()
	home, b := newPlace(t), pgtest.NewPooler(t, pgtest.URL(t))
	var cases atomic.Int64
	newCase := func() pooledCase { return pooledCase{home, b, fmt.Sprint("case ", cases.Add(1))} }
	t.Run("two steps", func(t *testing.T) {
		t.Parallel()
		cs := map[store.Store]pooledCase{}
		at := func(c pooledCase, st store.Store) store.Store {
			cs[st] = c
			return st
		}
		storetest.Run(t, func(t *testing.T) store.Store {
			c := newCase()
			return at(c, c.by(byExec).open(t))
		}, storetest.Beside(func(t *testing.T, first store.Store) store.Store {
			return at(cs[first], cs[first].by(bySimple).openSQL(t))
		}), storetest.Reopen(func(t *testing.T, st store.Store) store.Store {
			require.NoError(t, st.(io.Closer).Close())
			return at(cs[st], cs[st].by(bySimple).open(t))
		}))
	})
	t.Run("one transaction by pgx", func(t *testing.T) {
		t.Parallel()
		pooledTxContract(t, newCase, place.open, pgxWrite, byExec, byDescribe)
	})
	t.Run("one transaction by database/sql", func(t *testing.T) {
		t.Parallel()
		pooledTxContract(t, newCase, place.openSQL, sqlWrite, byExec, bySimple)
	})
}

// A pooledCase has its tables in the schema of the place.
type pooledCase struct {
	place
	pgtest.Pooler
	table string
}

// by is the place as it is reached through the pooler.
func (c pooledCase) by(mode string) place {
	p := c.place
	p.url = c.Pooler.URL(mode)
	p.opts = append(p.opts, pgstore.WithTable(c.table))
	return p
}

func (c pooledCase) effects() string {
	return pgx.Identifier{c.schema, c.table + " effects"}.Sanitize()
}

// A pooler passes no search path on, so that effects are written by the table's whole name.
func pooledTxContract[T any, S txStore[T]](t *testing.T, newCase func() pooledCase, open func(p place, t testing.TB) S,
	exec func(ctx context.Context, tx T, text string, args ...any) error, first, second string) {
	cs := map[store.Store]pooledCase{}
	var current pooledCase // since one case runs at a time
	conn := pgtest.Connect(t, pgtest.URL(t))
	at := func(t *testing.T, c pooledCase, mode string) store.TxStore[T] {
		st := open(c.by(mode), t)
		cs[st] = c
		return st
	}
	storetest.RunTx(t, storetest.TxHarness[T]{
		Open: func(t *testing.T) store.TxStore[T] {
			current = newCase()
			pgtest.Exec(t, conn, "CREATE TABLE "+current.effects()+" (key text NOT NULL)")
			return at(t, current, first)
		},
		Write: func(ctx context.Context, tx T, key string) error {
			return exec(ctx, tx, "INSERT INTO "+current.effects()+" VALUES ($1)", key)
		},
		Written: func(ctx context.Context, st store.TxStore[T], key string) (n int, err error) {
			err = conn.QueryRow(ctx, "SELECT count(*) FROM "+cs[st].effects()+" WHERE key = $1", key).Scan(&n)
			return n, err
		},
		Fail: func(ctx context.Context, tx T) error { return exec(ctx, tx, "SELECT 1/0") },
	}, storetest.Beside(func(t *testing.T, st store.Store) store.Store { return at(t, cs[st], second) }),
		storetest.Reopen(func(t *testing.T, st store.Store) store.Store {
			require.NoError(t, st.(S).Close())
			return at(t, cs[st], first)
		}))
}

// The round trips in the package comment hold behind a pooler too, where the connection string has the mode.
func TestRoundTripsBehindAPooler(t *testing.T) {
	b := pgtest.NewPooler(t, pgtest.URL(t))
	home, w := newPlace(t), &wire{}
	home.conns = 1
	away := pooledCase{home, b, "records"}.by(byExec)
	counted := away
	counted.change = []func(*pgxpool.Config){w.under}
	roundTrips(t, w, counted.open(t), away.open(t),
		map[string]int64{"begin": 1, "take over": 2, "commit": 1, "discard": 2, "replay": 2, "held elsewhere": 2})
}
