package disk

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"

	"go.etcd.io/bbolt"

	"github.com/redo-go/redo/outbox/boltoutbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
)

// ErrRefused is wrapped by the error of a file that the store refuses to open.
var ErrRefused = errors.New("disk: the file is refused")

// Open opens the file of a state with boltstore and compares it with what it owes. If write is set, it also uses the
// store. Then the next fence must be higher than each that was given out, and a new record must survive a Close.
func (l *Ledger) Open(ctx context.Context, path string, write bool) error {
	st, err := open(path)
	if err != nil {
		return err
	}
	return errors.Join(l.use(ctx, st, path, write), st.Close())
}

func open(path string) (*boltstore.Store, error) {
	st, err := boltstore.Open(path)
	if err != nil && errors.Is(err, store.ErrUnavailable) {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return st, err
}

func (l *Ledger) use(ctx context.Context, st *boltstore.Store, path string, write bool) error {
	if err := l.look(ctx, st); err != nil {
		return err
	}
	if err := st.Verify(ctx); err != nil {
		return fmt.Errorf("verifying: %w", err)
	}
	if !write {
		return nil
	}
	const key = "after the power cut"
	g, err := st.Reserve(ctx, claimOf(key))
	if err != nil {
		return fmt.Errorf("reserving: %w", err)
	}
	if g.Verdict != store.Acquired || g.Lease.Fence <= l.Fence {
		return fmt.Errorf("%w: %v under fence %d, and %d was given out before", ErrLoss, g.Verdict, g.Lease.Fence, l.Fence)
	}
	if err := st.Complete(ctx, g.Lease, store.Outcome{Result: []byte(key)}); err != nil {
		return fmt.Errorf("completing: %w", err)
	}
	if err := st.Close(); err != nil {
		return err
	}
	again, err := open(path)
	if err != nil {
		return fmt.Errorf("opening it again: %w", err)
	}
	defer func() { err = errors.Join(err, again.Close()) }()
	r, err := again.Find(ctx, g.Lease.ID)
	if err != nil {
		return fmt.Errorf("finding what was written after the power cut: %w", err)
	}
	if f := factOf(r); !settled(factOf(g.Record), store.Outcome{Result: []byte(key)}).fits(f) {
		return fmt.Errorf("%w: what was written after the power cut is %v", ErrLoss, f)
	}
	return again.Verify(ctx)
}

// look compares the store with the ledger.
func (l *Ledger) look(ctx context.Context, st *boltstore.Store) error {
	buckets := 0
	err := st.View(ctx, func(tx *boltstore.Tx) error {
		return tx.ForEach(func([]byte, *bbolt.Bucket) error { buckets++; return nil })
	})
	if err != nil || l.queued && buckets == 0 {
		return errors.Join(err, fmt.Errorf("%w: the queue has no bucket", ErrLoss))
	}
	queue, err := boltoutbox.New(ctx, st)
	if err != nil {
		return fmt.Errorf("opening the queue: %w", err)
	}
	seen, err := survey(ctx, st, queue, maps.Keys(l.keys))
	if err != nil {
		return err
	}
	return l.Judge(seen)
}

// OpenState writes the state to path, and opens it. Its error wraps ErrLoss.
func (l *Ledger) OpenState(ctx context.Context, s State, path string, write bool) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if !s.Absent {
		if err := os.WriteFile(path, s.Content, 0o600); err != nil {
			return err
		}
	}
	if err := l.Open(ctx, path, write); err != nil {
		return fmt.Errorf("%w: %w", ErrLoss, err)
	}
	return nil
}
