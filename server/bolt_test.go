package server_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
)

// A bank is a route over a real file, with a separate bucket in it: each refund is one entry.
type bank struct {
	*rig
	st *boltstore.Store
}

var refunds = []byte("refunds")

func newBank(t *testing.T, wrap func(*boltstore.Store) store.Store, run http.HandlerFunc, opts ...server.Option) *bank {
	t.Helper()
	st, err := boltstore.Open(filepath.Join(t.TempDir(), "bank.redo"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	over := store.Store(st)
	if wrap != nil {
		over = wrap(st)
	}
	return &bank{newRig(t, over, refunding(run),
		append(opts, server.Required(), server.Transactional[*boltstore.Tx]())...), st}
}

// refunding makes the entry of a refund and then runs next.
func refunding(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		tx, ok := server.Tx[*boltstore.Tx](r.Context())
		if !ok {
			panic("no transaction")
		}
		b, err := tx.CreateBucketIfNotExists(refunds)
		if err != nil {
			panic(err)
		}
		n, err := b.NextSequence()
		if err != nil {
			panic(err)
		}
		if err := b.Put(strconv.AppendUint(nil, n, 10), []byte(server.Key(r.Context()))); err != nil {
			panic(err)
		}
		next(w, r)
	}
}

// effects counts the refunds that are committed.
func (b *bank) effects() (n int) {
	b.t.Helper()
	require.NoError(b.t, b.st.View(b.t.Context(), func(tx *boltstore.Tx) error {
		if own := tx.Bucket(refunds); own != nil {
			n = own.Stats().KeyN
		}
		return nil
	}))
	return n
}

func TestTransactionInBolt(t *testing.T) {
	t.Run("a first run commits once, a repetition is replayed, another payload refused", func(t *testing.T) {
		b := newBank(t, nil, created)
		before := b.st.Stats().Commits
		requireStored(t, b.do(), 201, `{"id":"rf_123"}`)
		require.Equal(t, before+1, b.st.Stats().Commits, "effect and record are one commit")
		requireReplayed(t, b.do(), 201, `{"id":"rf_123"}`)
		requireProblem(t, b.do(withBody("other")), 409, "CONFLICT.idempotency.payload_mismatch")
		require.Equal(t, before+1, b.st.Stats().Commits)
		require.Equal(t, 1, b.effects())
		require.Equal(t, 1, b.ran())
	})
	for rule, wait := range map[string]time.Duration{"refused": 0, "waiting": time.Minute} {
		t.Run("64 concurrent duplicates, "+rule+", have one effect", func(t *testing.T) {
			b := newBank(t, nil, created, server.Wait(wait))
			var all sync.WaitGroup
			answers := make([]*httptest.ResponseRecorder, 64)
			for i := range answers {
				all.Go(func() { answers[i] = b.do() })
			}
			all.Wait()
			stored := 0
			for _, w := range answers {
				switch {
				case w.Header().Get("Idempotency-Status") == "stored":
					stored++
					requireStored(t, w, 201, `{"id":"rf_123"}`)
				case wait == 0 && w.Code == http.StatusConflict:
					requireProblem(t, w, 409, "CONFLICT.idempotency.in_flight")
				default:
					requireReplayed(t, w, 201, `{"id":"rf_123"}`)
				}
			}
			require.Equal(t, 1, stored)
			require.Equal(t, 1, b.effects())
			require.Equal(t, 1, b.ran())
		})
	}
	t.Run("a terminal 4xx is replayed, and undone", func(t *testing.T) {
		b := newBank(t, nil, answer(422, "no such charge"))
		requireStored(t, b.do(), 422, "no such charge")
		requireReplayed(t, b.do(), 422, "no such charge")
		require.Zero(t, b.effects())
	})
	t.Run("a 4xx after Applied is replayed, and kept", func(t *testing.T) {
		b := newBank(t, nil, after(applied, answer(422, "x")))
		requireStored(t, b.do(), 422, "x")
		require.Equal(t, 1, b.effects())
	})
	t.Run("a 5xx is undone, and the retry runs", func(t *testing.T) {
		turn := 0
		b := newBank(t, nil, func(w http.ResponseWriter, r *http.Request) {
			if turn++; turn == 1 {
				w.WriteHeader(503)
				return
			}
			created(w, r)
		})
		requireReleased(t, b.do(), 503)
		require.Zero(t, b.effects())
		requireStored(t, b.do(), 201, `{"id":"rf_123"}`)
		require.Equal(t, 1, b.effects())
	})
	t.Run("a panic is undone, and blocks no key", func(t *testing.T) {
		turn := 0
		b := newBank(t, nil, func(w http.ResponseWriter, r *http.Request) {
			if turn++; turn == 1 {
				panic(http.ErrAbortHandler)
			}
			created(w, r)
		})
		require.PanicsWithValue(t, http.ErrAbortHandler, func() { b.do() })
		require.Zero(t, b.effects())
		requireStored(t, b.do(withKey("k2")), 201, `{"id":"rf_123"}`)
		requireStored(t, b.do(), 201, `{"id":"rf_123"}`)
		require.Equal(t, 2, b.effects())
	})
	t.Run("a panic after Applied is undone, and never runs again", func(t *testing.T) {
		b := newBank(t, nil, after(applied, func(http.ResponseWriter, *http.Request) { panic("x") }))
		require.Panics(t, func() { b.do() })
		requireProblem(t, b.do(), 409, "CONFLICT.idempotency.outcome_unknown")
		require.Zero(t, b.effects())
	})
	t.Run("a client that leaves changes nothing", func(t *testing.T) {
		client, leave := context.WithCancel(t.Context())
		b := newBank(t, nil, func(w http.ResponseWriter, r *http.Request) {
			leave()
			created(w, r)
		})
		b.do(func(r *http.Request) { *r = *r.WithContext(client) })
		requireReplayed(t, b.do(), 201, `{"id":"rf_123"}`)
		require.Equal(t, 1, b.effects())
	})
	t.Run("a commit that fails is 503 and has done nothing, and the retry runs", func(t *testing.T) {
		b := newBank(t, func(st *boltstore.Store) store.Store {
			return &failingOnce{Store: st, err: store.ErrUnavailable}
		}, created)
		requireProblem(t, b.do(), 503, "DEPENDENCY.unavailable")
		require.Zero(t, b.effects())
		requireStored(t, b.do(), 201, `{"id":"rf_123"}`)
		require.Equal(t, 1, b.effects())
	})
	t.Run("a commit whose response was lost is found", func(t *testing.T) {
		b := newBank(t, func(st *boltstore.Store) store.Store {
			return &failingOnce{Store: st, err: store.ErrUnknown, made: true}
		}, created)
		requireStored(t, b.do(), 201, `{"id":"rf_123"}`)
		require.Equal(t, 1, b.effects())
	})
	t.Run("a handler that itself rolls back gets no success, and has done nothing", func(t *testing.T) {
		b := newBank(t, nil, func(w http.ResponseWriter, r *http.Request) {
			tx, _ := server.Tx[*boltstore.Tx](r.Context())
			require.ErrorIs(t, tx.Rollback(), store.ErrTxEnded)
			created(w, r)
		})
		requireProblem(t, b.do(), 503, "DEPENDENCY.unavailable")
		require.Zero(t, b.effects())
	})
	t.Run("a handler that itself commits is refused, and its transaction goes on", func(t *testing.T) {
		b := newBank(t, nil, func(w http.ResponseWriter, r *http.Request) {
			tx, _ := server.Tx[*boltstore.Tx](r.Context())
			require.ErrorIs(t, tx.Commit(), store.ErrTxEnded)
			created(w, r)
		})
		before := b.st.Stats().Commits
		requireStored(t, b.do(), 201, `{"id":"rf_123"}`)
		require.Equal(t, before+1, b.st.Stats().Commits)
		require.Equal(t, 1, b.effects())
	})
	t.Run("an existing two-step record is taken over, and rolled back to what it was", func(t *testing.T) {
		turn := 0
		b := newBank(t, nil, func(w http.ResponseWriter, r *http.Request) {
			require.True(t, server.TakenOver(r.Context()))
			if turn++; turn == 1 {
				w.WriteHeader(500)
				return
			}
			created(w, r)
		})
		c := store.Claim{
			ID: refundID, Retention: time.Hour,
			Fingerprint: store.Raw(http.MethodPost, "/refunds/ch_1", "", []byte(`{"amount":1000}`)),
		}
		_, err := b.st.Reserve(t.Context(), c)
		require.NoError(t, err)
		before, err := b.st.Find(t.Context(), refundID)
		require.NoError(t, err)
		requireReleased(t, b.do(), 500)
		now, err := b.st.Find(t.Context(), refundID)
		require.NoError(t, err)
		now.ReadAt = before.ReadAt
		require.Equal(t, before, now)
		requireStored(t, b.do(), 201, `{"id":"rf_123"}`)
		require.Equal(t, 1, b.effects())
	})
}

// failingOnce is a boltstore whose first commit fails: before it was made, or after.
type failingOnce struct {
	*boltstore.Store
	err  error
	made bool
}

func (f *failingOnce) Begin(ctx context.Context, c store.Claim) (store.Tx[*boltstore.Tx], store.Grant, error) {
	tx, g, err := f.Store.Begin(ctx, c)
	if tx != nil {
		tx = &failingTx{tx, f}
	}
	return tx, g, err
}

type boltTx = store.Tx[*boltstore.Tx]

type failingTx struct {
	boltTx
	of *failingOnce
}

func (f *failingTx) Commit(ctx context.Context, o store.Outcome) error {
	err := f.of.err
	f.of.err = nil
	if err == nil || f.of.made {
		return errors.Join(f.boltTx.Commit(ctx, o), err)
	}
	return errors.Join(err, f.Rollback(ctx))
}
