package boltstore

import (
	"context"
	"testing"
	"time"

	"github.com/redo-go/redo/internal/hangtest"
	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

var accounts = []byte("accounts")

// pay writes an effect of the application's own, which all of these tests look for.
func pay(tx *Tx, key string) error {
	b, err := tx.CreateBucketIfNotExists(accounts)
	if err != nil {
		return err
	}
	return b.Put([]byte(key), []byte("paid"))
}

// paid reports whether the effect is in the file.
func paid(t testing.TB, s *Store, key string) (found bool) {
	t.Helper()
	require.NoError(t, s.db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket(accounts)
		found = b != nil && b.Get([]byte(key)) != nil
		return nil
	}))
	return found
}

func mustBegin(t testing.TB, s *Store, c store.Claim, want store.Verdict) (store.Tx[*Tx], store.Grant) {
	t.Helper()
	var tx store.Tx[*Tx]
	var g store.Grant
	require.NoError(t, hangtest.Within(t, func() (err error) {
		tx, g, err = s.Begin(t.Context(), c)
		return err
	}))
	require.Equal(t, want.String(), g.Verdict.String())
	require.Equal(t, want.Owned(), tx != nil)
	if tx != nil {
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	}
	return tx, g
}

func TestEffectAndRecordAreOneCommit(t *testing.T) {
	s := mustOpen(t, tempFile(t))
	before := s.Stats()
	tx, g := mustBegin(t, s, claim("k"), store.Acquired)
	require.NoError(t, pay(tx.Tx(), "k"))
	require.NoError(t, tx.Commit(t.Context(), store.Outcome{Result: []byte("receipt")}))
	require.Equal(t, before.Commits+1, s.Stats().Commits)
	require.True(t, paid(t, s, "k"))
	r := find(t, s, "k")
	require.Equal(t, g.Lease.Fence, r.Fence)
	require.Equal(t, "receipt", string(r.Result))

	before = s.Stats()
	_, g = mustBegin(t, s, claim("k"), store.Complete)
	require.Equal(t, "receipt", string(g.Record.Result))
	require.Equal(t, before, s.Stats(), "a replay commits nothing")
	checkIndexes(t, s)
}

func TestBeginByWhatStands(t *testing.T) {
	another := store.Raw("POST", "/refunds", "", []byte("another body"))
	for _, c := range []struct {
		name  string
		stand func(t *testing.T, s *Store, c store.Claim) *Store // before the Begin; nil: nothing
		print *store.Fingerprint
		want  store.Verdict
		meta  bool // the standing record's is kept
	}{
		{name: "nothing", want: store.Acquired},
		{name: "a live lease", stand: func(t *testing.T, s *Store, c store.Claim) *Store {
			mustReserve(t, s, c, store.Acquired)
			return s
		}, want: store.InFlight, meta: true},
		{name: "no lease", stand: func(t *testing.T, s *Store, c store.Claim) *Store {
			c.Lease = 0
			mustReserve(t, s, c, store.Acquired)
			return s
		}, want: store.TakenOver, meta: true},
		{name: "a lease that was given up", stand: func(t *testing.T, s *Store, c store.Claim) *Store {
			l := mustReserve(t, s, c, store.Acquired).Lease
			require.NoError(t, s.Extend(t.Context(), l, 0, nil))
			return s
		}, want: store.TakenOver, meta: true},
		{name: "the live lease of an earlier process", stand: func(t *testing.T, s *Store, c store.Claim) *Store {
			mustReserve(t, s, c, store.Acquired)
			require.NoError(t, s.Close())
			s = mustOpen(t, s.path)
			mustReserve(t, s, claim("another"), store.Acquired) // its commit reserves fences
			return s
		}, want: store.TakenOver, meta: true},
		{name: "another payload", stand: func(t *testing.T, s *Store, c store.Claim) *Store {
			c.Lease = 0
			mustReserve(t, s, c, store.Acquired)
			return s
		}, print: &another, want: store.Mismatch, meta: true},
		{name: "an expired record of another payload", stand: func(t *testing.T, s *Store, c store.Claim) *Store {
			c.Lease, c.Retention = 0, 1
			mustReserve(t, s, c, store.Acquired)
			return s
		}, print: &another, want: store.Acquired},
		{name: "an expired result", stand: func(t *testing.T, s *Store, c store.Claim) *Store {
			mustSettle(t, s, "k", store.Outcome{Retention: 1})
			return s
		}, want: store.Acquired},
		{name: "a failure", stand: func(t *testing.T, s *Store, c store.Claim) *Store {
			mustSettle(t, s, "k", store.Outcome{Failed: true})
			return s
		}, want: store.Failed, meta: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, k := mustOpen(t, tempFile(t)), claim("k")
			if c.stand != nil {
				s = c.stand(t, s, k)
			}
			if c.print != nil {
				k.Fingerprint = *c.print
			}
			top := s.fence
			before := s.Stats()
			tx, g := mustBegin(t, s, k, c.want)
			require.Equal(t, c.meta, g.Record.Meta != nil)
			if tx == nil {
				require.Zero(t, g.Lease)
				require.Empty(t, s.claims)
			} else {
				require.Equal(t, top+1, g.Lease.Fence)
				require.Equal(t, g.Record.Lease(), g.Lease)
				require.Zero(t, g.Record.LeaseUntil)
				require.NoError(t, pay(tx.Tx(), "k"))
				require.NoError(t, tx.Rollback(t.Context()))
				require.False(t, paid(t, s, "k"))
			}
			require.Equal(t, before, s.Stats())

			if tx != nil {
				tx, g = mustBegin(t, s, k, c.want)
				require.NoError(t, tx.Commit(t.Context(), store.Outcome{Result: []byte("r")}))
				require.NoError(t, s.Close())
				s = mustOpen(t, s.path)
				r := find(t, s, "k")
				require.Equal(t, g.Lease.Fence, r.Fence)
				require.Equal(t, store.StateComplete, r.State)
				require.Equal(t, c.meta, r.Meta != nil)
				require.GreaterOrEqual(t, s.fence, g.Lease.Fence)
				checkIndexes(t, s)
			}
		})
	}
}

func TestDiscardIsOneCommitOfTheRecordAlone(t *testing.T) {
	s := mustOpen(t, tempFile(t))
	before := s.Stats()
	tx, _ := mustBegin(t, s, claim("k"), store.Acquired)
	require.NoError(t, pay(tx.Tx(), "k"))
	require.NoError(t, tx.Discard(t.Context(), store.Outcome{Failed: true, Result: []byte("refused")}))
	require.Equal(t, before.Commits+1, s.Stats().Commits)
	require.False(t, paid(t, s, "k"))
	_, g := mustBegin(t, s, claim("k"), store.Failed)
	require.Equal(t, "refused", string(g.Record.Result))
}

// What the writer seals while a transaction is open carries no older state than the transaction has committed.
func TestFenceInTheFileNeverFallsBack(t *testing.T) {
	path := tempFile(t)
	s := mustOpen(t, path)
	first, _ := mustBegin(t, s, claim("first"), store.Acquired)
	reserved := reserving(t, s, "two-step")
	queued(t, s, 1)
	next := beginning(t.Context(), s, "second")
	holding(t, s, 2)
	require.NoError(t, first.Commit(t.Context(), store.Outcome{}))
	second := <-next // before or behind the writer
	require.NoError(t, second.err)
	require.NoError(t, second.tx.Commit(t.Context(), store.Outcome{}))
	require.NoError(t, <-reserved)
	top := s.fence
	require.NoError(t, s.Close())
	require.Equal(t, top+fenceBlock, mustOpen(t, path).fence)
}

type begun struct {
	tx    store.Tx[*Tx]
	grant store.Grant
	err   error
}

func beginning(ctx context.Context, s *Store, key string) <-chan begun {
	done := make(chan begun, 1)
	go func() {
		var b begun
		b.tx, b.grant, b.err = s.Begin(ctx, claim(key))
		done <- b
	}()
	return done
}

// holding waits until n IDs are held.
func holding(t *testing.T, s *Store, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.claims) == n
	}, time.Minute, time.Millisecond)
}
