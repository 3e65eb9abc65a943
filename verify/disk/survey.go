package disk

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/boltoutbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
)

func factOf(r store.Record) Fact {
	return Fact{State: r.State, Meta: string(r.Meta), Result: string(r.Result), Fence: r.Fence}
}

// survey returns the facts of the known IDs and of all others in the file. Find returns the records. The effects and
// events of transactions are read from their buckets.
func survey(ctx context.Context, st *boltstore.Store, queue *boltoutbox.Queue, known iter.Seq[string]) (
	map[string]Fact, error,
) {
	seen, events := map[string]Fact{}, map[string]int{}
	for e, err := range queue.Events(ctx, outbox.Selection{}) {
		if err != nil {
			return nil, fmt.Errorf("reading the events: %w", err)
		}
		events[e.Event.ID]++
	}
	keys := map[string]bool{}
	for key := range known {
		keys[key] = true
	}
	err := st.View(ctx, func(tx *boltstore.Tx) error {
		if b := tx.Bucket(effects); b != nil {
			for k := range entries(b) {
				seen[k] = Fact{Effect: true}
			}
		}
		var records *bbolt.Bucket
		_ = tx.ForEach(func(_ []byte, b *bbolt.Bucket) error { // the queue has a bucket
			records = b.Tx().Bucket([]byte("redo")).Bucket([]byte("records"))
			return nil
		})
		for k := range entries(records) {
			key, ours := strings.CutPrefix(k, "\x05scope") // the length of the scope, and the scope
			if !ours {
				return fmt.Errorf("%w: there is a record under %q", ErrLoss, k)
			}
			keys[key] = true
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the keys: %w", err)
	}
	for key := range events {
		if !seen[key].Effect {
			return nil, fmt.Errorf("%w: %q has an event and no effect", ErrLoss, key)
		}
	}
	for key := range seen {
		if events[key] != 1 {
			return nil, fmt.Errorf("%w: %q has an effect and %d events", ErrLoss, key, events[key])
		}
	}
	for key := range keys {
		c := claimOf(key)
		r, err := st.Find(ctx, c.ID)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("finding %q: %w", key, err)
		}
		if r.Fingerprint != c.Fingerprint {
			return nil, fmt.Errorf("%w: %q has the fingerprint %v", ErrLoss, key, r.Fingerprint)
		}
		f := factOf(r)
		f.Effect = seen[key].Effect
		seen[key] = f
	}
	return seen, nil
}

// entries yields the keys of a bucket.
func entries(b *bbolt.Bucket) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		stop := errors.New("stop")
		_ = b.ForEach(func(k, _ []byte) error {
			if !yield(string(k)) {
				return stop
			}
			return nil
		})
	}
}
