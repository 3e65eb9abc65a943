package verify

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/sqlitestore"
)

// onSQLite is a file. Nothing can break on the way to it.
type onSQLite struct{ path string }

func newOnSQLite(t *testing.T) *onSQLite {
	return &onSQLite{path: filepath.Join(t.TempDir(), "verify.db")}
}

func (e *onSQLite) open(t *testing.T) store.Store {
	t.Helper()
	st, err := sqlitestore.Open(t.Context(), e.path, sqlitestore.WithMigrate())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st
}

func (*onSQLite) wear(bool)                     {}
func (*onSQLite) disturb(context.Context) error { return nil }

func TestHistoriesInSQLite(t *testing.T) {
	inSQLite := func(t *testing.T, n int, cancel func(*rand.Rand, context.CancelFunc) func()) {
		e := newOnSQLite(t)
		one, two := e.open(t), e.open(t)
		tally := map[string]int{}
		for _, seed := range seeds(t, n) {
			p := inPlace(seed)
			if cancel != nil {
				p = apart(p)
			}
			p.scope, p.scale, p.cancel = newName(), nominal(), cancel
			h := p.run(t.Context(), one, two)
			h.count(tally)
			requireLinearizable(t, h)
		}
		t.Log(tally)
	}
	t.Run("linearizable over two handles", func(t *testing.T) { inSQLite(t, 12, nil) })
	t.Run("linearizable while contexts end", func(t *testing.T) { inSQLite(t, 20, cancelWithin(2*time.Millisecond)) })
}

func TestTransactionsInSQLite(t *testing.T) {
	e := newOnSQLite(t)
	e.open(t)
	db, err := sql.Open("sqlite", e.path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	_, err = db.Exec("CREATE TABLE effects (scope TEXT, effect TEXT)")
	require.NoError(t, err)
	transactionsOn(t, e, func(st store.Store, scope string) transactor {
		lite := st.(*sqlitestore.Store)
		return overSQL(lite, lite, lite, db, scope)
	})
}
