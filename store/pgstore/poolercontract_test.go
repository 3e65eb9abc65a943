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

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/store/storetest"
)

// The ways to reach a store behind a pooler that keeps no prepared statements.
var (
	byExec     = way{"exec", nil}
	bySimple   = way{"simple_protocol", nil}
	byDescribe = way{"cache_describe", nil}
	byOption   = way{"cache_statement", []pgstore.Option{pgstore.WithExecMode(pgx.QueryExecModeExec)}}
)

type way struct {
	mode string // of the connection string
	opts []pgstore.Option
}

// Each handle of a case speaks in another way, and the handles share the few connections of one pooler. A case has a
// table of its own.
func TestContractBehindAPooler(t *testing.T) {
	t.Parallel()
	home, b := newPlace(t), newPooler(t, serverURL(t))
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
			return at(cs[first], cs[first].by(byOption).openSQL(t))
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
	pooler
	table string
}

// by is the place as it is reached through the pooler.
func (c pooledCase) by(w way) place {
	p := c.place
	p.url = c.pooler.url(w.mode)
	p.opts = append([]pgstore.Option{pgstore.WithTable(c.table)}, w.opts...)
	return p
}

func (c pooledCase) effects() string {
	return pgx.Identifier{c.schema, c.table + " effects"}.Sanitize()
}

// A pooler passes no search path on, so that effects are written by the table's whole name.
func pooledTxContract[T any, S txStore[T]](t *testing.T, newCase func() pooledCase, open func(p place, t testing.TB) S,
	exec func(ctx context.Context, tx T, text string, args ...any) error, first, second way) {
	cs := map[store.Store]pooledCase{}
	var current pooledCase // since one case runs at a time
	conn := admin(t, serverURL(t))
	at := func(t *testing.T, c pooledCase, w way) store.TxStore[T] {
		st := open(c.by(w), t)
		cs[st] = c
		return st
	}
	storetest.RunTx(t, storetest.TxHarness[T]{
		Open: func(t *testing.T) store.TxStore[T] {
			current = newCase()
			sqlExec(t, conn, "CREATE TABLE "+current.effects()+" (key text NOT NULL)")
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

// What the package comment says of round trips holds behind a pooler too, where the connection string has the mode.
func TestRoundTripsBehindAPooler(t *testing.T) {
	b := newPooler(t, serverURL(t))
	home, w := newPlace(t), &wire{}
	home.conns = 1
	away := pooledCase{home, b, "records"}.by(byExec)
	counted := away
	counted.change = []func(*pgxpool.Config){w.under}
	roundTrips(t, w, counted.open(t), away.open(t), map[string]int64{"begin": 2, "replay": 1, "held elsewhere": 4, "commit": 2, "discard": 3})
}
