package pgstore_test

import (
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

func TestContract(t *testing.T) { contractAt(t, func(*pgxpool.Config) {}) }

// Behind a transaction pooler statements are sent without prepared ones, or as text. A role or a database may have
// another default than read committed.
func TestContractAtStricterIsolationWithoutPreparedStatements(t *testing.T) {
	racetest.Repeats(t)
	for level, mode := range map[string]pgx.QueryExecMode{
		"repeatable read": pgx.QueryExecModeExec,
		"serializable":    pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(level+", "+mode.String(), func(t *testing.T) {
			contractAt(t, func(cfg *pgxpool.Config) {
				cfg.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
				cfg.ConnConfig.DefaultQueryExecMode = mode
			})
		})
	}
}

func contractAt(all *testing.T, change func(*pgxpool.Config)) {
	places := map[store.Store]place{}
	at := func(t *testing.T, p place) store.Store {
		st := p.open(t)
		p.pool = nil // another handle has its own
		places[st] = p
		return st
	}
	next := reusing(all, func(t testing.TB) place {
		p := newPlace(t).proxied(all)
		p.change = append(p.change, change)
		return p
	})
	factory := func(t *testing.T) store.Store { return at(t, next(t)) }
	beside := func(t *testing.T, first store.Store) store.Store { return at(t, places[first]) }
	reopen := func(t *testing.T, st store.Store) store.Store {
		require.NoError(t, st.(*pgstore.Store).Close())
		return at(t, places[st])
	}
	storetest.Run(all, factory, storetest.Beside(beside), storetest.Reopen(reopen), storetest.Damage(damaged(places)),
		injecting(places))
}

func injecting(places map[store.Store]place) storetest.Option {
	return storetest.Faults(func(t *testing.T, st store.Store, f storetest.Fault) func() {
		return places[st].inject(t, st, f)
	})
}

// damaged makes an instant of a record infinite, which no constraint of the table forbids.
func damaged(places map[store.Store]place) func(*testing.T, store.Store, store.ID) store.Store {
	return func(t *testing.T, st store.Store, id store.ID) store.Store {
		places[st].damage(t, id, "expires_at = 'infinity'")
		return st
	}
}

// damage changes the row of an ID as another program might.
func (p place) damage(t testing.TB, id store.ID, set string) {
	t.Helper()
	tag, err := pgtest.Connect(t, p.url).
		Exec(t.Context(), "UPDATE "+p.table()+" SET "+set+" WHERE scope = $1 AND key = $2",
			[]byte(id.Scope), []byte(id.Key))
	require.NoError(t, err)
	require.EqualValues(t, 1, tag.RowsAffected())
}
