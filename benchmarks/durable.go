package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"

	"go.etcd.io/bbolt"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/benchmarks/contest"
	"github.com/redo-go/redo/benchmarks/post"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
)

// Names of the contestants among the stores, as the targets use them.
const (
	byUpdate  = "bbolt Update"
	byBatch   = "bbolt Batch"
	byStore   = "boltstore"
	byDurably = "redo.Do over boltstore"
)

// A record is a header of 96 bytes, as boltstore writes it, a request, and once it is complete a result.
var (
	request     = make([]byte, post.SmallBody)
	result      = make([]byte, 256)
	saved       = make([]byte, 96+len(request))
	completed   = make([]byte, 96+len(request)+len(result))
	fingerprint = store.Raw(http.MethodPost, post.MemoryURL, "", request)
)

// reserveScenario is one durable write, as a caller waits for it before the first byte is sent.
func reserveScenario() contest.Scenario {
	return contest.Scenario{
		Name:      "reserve",
		Title:     "one durable write, one caller: the wait before the first byte is sent",
		Reference: byUpdate,
		Contestants: []contest.Contestant{
			{Name: byUpdate, Open: bare((*bbolt.DB).Update, 1, saved)},
			{Name: byStore, Open: stored(func(st *boltstore.Store) func(i int) error {
				return func(i int) error {
					_, err := reserve(st, i)
					return err
				}
			}, 1)},
		},
	}
}

// durableScenario measures an operation's two writes. bbolt has no lazy write, so both are durable there.
func durableScenario(callers int) contest.Scenario {
	return contest.Scenario{
		Name: fmt.Sprintf("durable-%d", callers),
		Title: fmt.Sprintf("a durable operation, callers: %d. It is saved durably, then completed (redo: lazily)",
			callers),
		Reference: byUpdate,
		Callers:   callers,
		Contestants: []contest.Contestant{
			{Name: byUpdate, Open: bare((*bbolt.DB).Update, callers, saved, completed)},
			{Name: byBatch, Open: bare((*bbolt.DB).Batch, callers, saved, completed)},
			{Name: byStore, Open: stored(func(st *boltstore.Store) func(i int) error {
				return func(i int) error {
					g, err := reserve(st, i)
					if err != nil {
						return err
					}
					return st.Complete(context.Background(), g.Lease, store.Outcome{Result: result, Lazy: true})
				}
			}, callers)},
			{Name: byDurably, Open: durably(callers)},
		},
	}
}

// operationName spreads the names as those of a real day would be: multiplying by an odd number is a permutation.
func operationName(i int) string {
	return fmt.Sprintf("refund:ch_%016x:1000", uint64(i)*0x9E3779B97F4A7C15)
}

func reserve(st *boltstore.Store, i int) (store.Grant, error) {
	g, err := st.Reserve(context.Background(), store.Claim{
		ID:          store.ID{Scope: "redo", Key: operationName(i)},
		Fingerprint: fingerprint,
		Retention:   store.Forever,
		Meta:        request,
	})
	if err == nil && g.Verdict != store.Acquired {
		err = fmt.Errorf("benchmarks: the verdict is %v, it must be %v", g.Verdict, store.Acquired)
	}
	return g, err
}

// stored runs an operation on a new boltstore, with the default options.
func stored(operation func(*boltstore.Store) func(i int) error, callers int) func(string) (contest.Runner, error) {
	return func(dir string) (contest.Runner, error) {
		st, err := boltstore.Open(filepath.Join(dir, "operations.redo"))
		if err != nil {
			return contest.Runner{}, err
		}
		return contest.Concurrently(callers, operation(st), st.Close), nil
	}
}

// durably runs whole calls of a client with a store.
func durably(callers int) func(string) (contest.Runner, error) {
	return func(dir string) (contest.Runner, error) {
		st, err := boltstore.Open(filepath.Join(dir, "operations.redo"))
		if err != nil {
			return contest.Runner{}, err
		}
		c, err := newRedo(post.Memory{}, redo.WithStore(st))
		if err != nil {
			return contest.Runner{}, errors.Join(err, st.Close())
		}
		return contest.Concurrently(callers, func(i int) error {
			ctx := redo.WithOperation(context.Background(), operationName(i))
			req, err := post.NewRequest(ctx, post.MemoryURL, request)
			if err != nil {
				return err
			}
			return post.Consume(c.Do(req))
		}, st.Close), nil
	}
}

// bare writes each value of an operation in a separate transaction. bbolt is opened as boltstore opens it, with
// the fastest options under which every commit is synced.
func bare(
	commit func(*bbolt.DB, func(*bbolt.Tx) error) error, callers int, values ...[]byte,
) func(string) (contest.Runner, error) {
	bucket := []byte("records")
	return func(dir string) (contest.Runner, error) {
		db, err := bbolt.Open(filepath.Join(dir, "bare.db"), 0o600,
			&bbolt.Options{FreelistType: bbolt.FreelistArrayType, NoStatistics: true})
		if err != nil {
			return contest.Runner{}, err
		}
		err = db.Update(func(tx *bbolt.Tx) error {
			_, err := tx.CreateBucket(bucket)
			return err
		})
		if err != nil {
			return contest.Runner{}, errors.Join(err, db.Close())
		}
		return contest.Concurrently(callers, func(i int) error {
			key := []byte(operationName(i))
			for _, value := range values {
				err := commit(db, func(tx *bbolt.Tx) error { return tx.Bucket(bucket).Put(key, value) })
				if err != nil {
					return err
				}
			}
			return nil
		}, db.Close), nil
	}
}
