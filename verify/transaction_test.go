package verify

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/store/pgstore"
)

// A record and its effect are committed together or not at all. Other callers reserve and settle in two steps
// meanwhile. In the end the committed effects are exactly those of the records.

var bucket = []byte("effects")

func transactionalBolt(st *boltstore.Store) transactional[*boltstore.Tx] {
	return transactional[*boltstore.Tx]{
		TxStore: st, Lister: st, Forgetter: st,
		write: func(_ context.Context, tx *boltstore.Tx, effect string) error {
			b, err := tx.CreateBucketIfNotExists(bucket)
			if err != nil {
				return err
			}
			n := append(bytes.Clone(b.Get([]byte(effect))), 1) // as long as it was written often
			return b.Put([]byte(effect), n)
		},
		read: func(ctx context.Context) (effects []string, err error) {
			err = st.View(ctx, func(tx *boltstore.Tx) error {
				b := tx.Bucket(bucket)
				if b == nil {
					return nil
				}
				return b.ForEach(func(k, v []byte) error {
					for range v {
						effects = append(effects, string(k))
					}
					return nil
				})
			})
			return effects, err
		},
	}
}

func transactionalPostgres(e *onPostgres, st *pgstore.Store, scope string) transactional[pgx.Tx] {
	table := pgx.Identifier{e.name, "effects"}.Sanitize()
	return transactional[pgx.Tx]{
		TxStore: st, Lister: st, Forgetter: st,
		write: func(ctx context.Context, tx pgx.Tx, effect string) error {
			_, err := tx.Exec(ctx, "INSERT INTO "+table+" VALUES ($1, $2)", scope, effect)
			return err
		},
		read: func(ctx context.Context) ([]string, error) {
			rows, err := e.admin.Query(ctx, "SELECT effect FROM "+table+" WHERE scope = $1", scope)
			if err != nil {
				return nil, err
			}
			return pgx.CollectRows(rows, pgx.RowTo[string])
		},
	}
}

func TestTransactionsInAFile(t *testing.T) {
	tally := map[string]int{}
	for _, seed := range seeds(t, 12) {
		var h history
		synctest.Test(t, func(t *testing.T) {
			st := transactionalBolt(openBolt(t).(*boltstore.Store))
			p := inTime(seed)
			p.weights, p.scale = inOneStep, virtual(time.Now())
			if seed%2 == 1 {
				p.cancel = cancelSoon
			}
			h = p.run(t.Context(), st)
			var err error
			h.effects, err = st.effects(t.Context())
			require.NoError(t, err)
		})
		h.count(tally)
		requireLinearizable(t, h)
	}
	t.Log(tally)
}

func TestTransactionsOnPostgres(t *testing.T) {
	e := newOnPostgres(t).(*onPostgres)
	_, err := e.admin.Exec(t.Context(),
		"CREATE TABLE "+pgx.Identifier{e.name, "effects"}.Sanitize()+" (scope text, effect text)")
	require.NoError(t, err)
	transactionsOn(t, e, func(st store.Store, scope string) transactor {
		return transactionalPostgres(e, st.(*pgstore.Store), scope)
	})
}

// transactionsOn makes histories of transactions over two handles on one backend. over returns a handle's transactor
// for a scope.
func transactionsOn(t *testing.T, e engine, over func(st store.Store, scope string) transactor) {
	one, two := e.open(t), e.open(t)
	transactions := func(t *testing.T, n int, change func(*plan), while func(*testing.T, engine, func()) func()) {
		tally := map[string]int{}
		for _, seed := range seeds(t, n) {
			p := apart(inPlace(seed))
			p.weights, p.scope, p.scale = inOneStep, newName(), nominal()
			change(&p)
			first, second := over(one, p.scope), over(two, p.scope)
			var h history
			var err error
			while(t, e, func() { h = p.run(t.Context(), first, second) })()
			h.effects, err = first.effects(t.Context())
			require.NoError(t, err)
			h.count(tally)
			requireLinearizable(t, h)
		}
		t.Log(tally)
	}
	t.Run("agree with their effects over two handles", func(t *testing.T) {
		transactions(t, 12, func(p *plan) { p.ids = 3 }, peace)
	})
	t.Run("agree with their effects while contexts end", func(t *testing.T) {
		transactions(t, 12, func(p *plan) { p.cancel = cancelWithin(4 * time.Millisecond) }, peace)
	})
	if _, ok := e.(*onSQLite); ok {
		return // there are no connections
	}
	t.Run("agree with their effects while connections break", func(t *testing.T) {
		transactions(t, 12, func(p *plan) { p.faults = true }, disturbance)
	})
	t.Run("agree with their effects while responses get lost", func(t *testing.T) {
		transactions(t, 12, func(p *plan) { p.faults = true }, wear)
	})
}

// The other histories check a store without transactions on the same records.
var _ store.Store = transactional[pgx.Tx]{}

// A claim may be refused by a transaction that overlaps it, or that was refused before and is still being rolled
// back. A transaction that has committed before holds nothing.
func TestAClaimBehindATransactionNeedsOne(t *testing.T) {
	behind := event{
		in: input{call: reserve}, out: output{grant: store.Grant{Verdict: store.InFlight}}, call: 10, answer: 11,
	}
	committed := event{in: input{call: once}, call: 1, answer: 2}
	refused, overlapping, other := committed, committed, committed
	refused.out.again = true
	overlapping.answer = 12
	other.in.id.Key, other.answer = "other", 12
	for _, c := range []struct {
		name  string
		other []event
		want  bool
	}{
		{"no transaction", nil, false},
		{"one that has committed", []event{committed}, false},
		{"one that was refused", []event{committed, refused}, true},
		{"one that overlaps", []event{overlapping}, true},
		{"one of another ID", []event{other}, false},
	} {
		require.Equal(t, c.want, history{events: append(c.other, behind)}.behindATransaction(behind), c.name)
	}
}
