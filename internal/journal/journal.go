package journal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

// A Journal keeps the operations of one scope in a store. It is safe for concurrent use.
type Journal struct {
	Store store.Store
	Scope string
	// Keep is the time for which a settled operation is kept.
	Keep time.Duration
}

// ID returns the store's ID of the operation with this name.
func (j Journal) ID(name string) store.ID { return store.ID{Scope: j.Scope, Key: name} }

// Reserve claims an operation. If the store's response was lost, Reserve reads the record, and returns a grant if the
// claim holds it. The verdict is then TakenOver in any case: the record does not show whether an earlier call with the
// same key made it.
func (j Journal) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	grant, err := j.Store.Reserve(ctx, c)
	if !errors.Is(err, store.ErrUnknown) {
		return grant, err
	}
	rec, findErr := j.Store.Find(ctx, c.ID)
	if findErr != nil {
		return grant, err
	}
	held, ok := store.Held(rec, c)
	if !ok {
		return grant, err
	}
	held.Verdict = store.TakenOver
	return held, nil
}

// Find reads an operation. The error matches store.ErrNotFound if there is none.
func (j Journal) Find(ctx context.Context, name string) (Entry, error) {
	rec, err := j.Store.Find(ctx, j.ID(name))
	if err != nil {
		return Entry{}, err
	}
	return Read(rec)
}

// Mark writes the request of a pending operation anew.
func (j Journal) Mark(ctx context.Context, lease store.Lease, r Request) error {
	return j.Store.Extend(ctx, lease, 0, r.Encode())
}

// Settle ends a pending operation, and returns its new state. An operation that was not applied becomes failed. Any
// other becomes complete. A failed operation can start anew, so a store that can't forget a settled record has none of
// it.
func (j Journal) Settle(ctx context.Context, lease store.Lease, s Settlement) (store.State, error) {
	if s.Effect != taxonomy.NotApplied {
		// A success may be lost in a crash: the server then replays it to the next call.
		out := store.Outcome{Result: s.Encode(), Retention: j.Keep, Lazy: s.Code == "" && s.Finding == nil}
		return store.StateComplete, j.Store.Complete(ctx, lease, out)
	}
	if _, forgets := j.Store.(store.Forgetter); !forgets {
		return store.StateFailed, j.Store.Release(ctx, lease)
	}
	// A failure must not be lost. The caller may correct the payload, which would mismatch a record that is pending.
	out := store.Outcome{Failed: true, Result: s.Encode(), Retention: j.Keep}
	return store.StateFailed, j.Store.Complete(ctx, lease, out)
}

// conclusions is the number of claims after which Conclude gives up.
const conclusions = 4

// Conclude is Settle for the outcome of a call under the key. An applied operation is settled also if a later claim has
// taken it over. The call of that claim sends the same key, so it can't have another outcome. It may have ended
// already, since the claim of a caller that has given up can reach the store late. Nothing would then settle the
// operation.
func (j Journal) Conclude(ctx context.Context, lease store.Lease, key string, s Settlement) (store.State, error) {
	for try := 1; ; try++ {
		to, err := j.Settle(ctx, lease, s)
		if !errors.Is(err, store.ErrLost) || s.Effect != taxonomy.Applied || try == conclusions {
			return to, err
		}
		entry, unread := j.Find(ctx, lease.ID.Key)
		if unread != nil || entry.Record.State != store.StatePending || entry.Request.Key != key {
			return to, err
		}
		lease = entry.Record.Lease()
	}
}

// Forget removes the record that was read. It returns store.ErrLost if the record has changed since.
func (j Journal) Forget(ctx context.Context, rec store.Record) error {
	if rec.State == store.StatePending {
		return j.Store.Release(ctx, rec.Lease())
	}
	f, ok := j.Store.(store.Forgetter)
	if !ok {
		return fmt.Errorf("%T can't forget a settled operation: it is no store.Forgetter", j.Store)
	}
	return f.Forget(ctx, rec.Lease())
}

// Pending lists the operations that are not settled, oldest first. An operation that can't be read is yielded with its
// name in Record.ID and an error, and the listing goes on. An error that ends the listing is yielded last, with a zero
// Entry.
func (j Journal) Pending(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		lister, ok := j.Store.(store.Lister)
		if !ok {
			yield(Entry{},
				fmt.Errorf("redo: Pending: %T can't list pending operations: it is no store.Lister", j.Store))
			return
		}
		for rec, err := range lister.Pending(ctx, j.Scope) {
			entry := Entry{Record: rec}
			switch {
			case err == nil:
				entry, err = Read(rec)
			case rec.ID.Key != "":
				err = fmt.Errorf("redo: operation %q: %w", rec.ID.Key, err)
			default:
				err = fmt.Errorf("redo: listing pending operations: %w", err)
			}
			if !yield(entry, err) {
				return
			}
		}
	}
}
