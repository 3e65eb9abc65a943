package verify

import (
	"context"
	"errors"
	"fmt"

	"github.com/redo-go/redo/store"
)

// A transactor is a store whose records commit with effects.
type transactor interface {
	store.Store
	// once is store.Once with a function that writes the input's effect, and then may fail.
	once(ctx context.Context, c store.Claim, in input) (o store.Outcome, again bool, err error)
	// effects are all that were committed.
	effects(ctx context.Context) ([]string, error)
}

// errFails is the error of a function that was meant to fail, or could not write.
var errFails = errors.New("verify: the work failed")

// A transactional store is a transactor over an engine's transactions.
type transactional[T any] struct {
	store.TxStore[T]
	store.Lister
	store.Forgetter
	write func(ctx context.Context, tx T, effect string) error
	read  func(ctx context.Context) ([]string, error)
}

func (s transactional[T]) once(ctx context.Context, c store.Claim, in input) (store.Outcome, bool, error) {
	return store.Once(ctx, s.TxStore, c, func(ctx context.Context, tx T) (store.Outcome, error) {
		if err := s.write(ctx, tx, in.effect); err != nil {
			return store.Outcome{}, errors.Join(errFails, err)
		}
		if in.fails {
			return store.Outcome{}, errFails
		}
		return in.outcome, nil
	})
}

func (s transactional[T]) effects(ctx context.Context) ([]string, error) { return s.read(ctx) }

// settleEffects compares the committed effects with the results of the calls of Once. For a call whose response
// was lost, it takes the result from the effect, and the record must then agree.
func (h *history) settleEffects() error {
	stands := map[string]int{}
	for _, effect := range h.effects {
		stands[effect]++
	}
	for i := range h.events {
		e := &h.events[i]
		if e.in.call != once {
			continue
		}
		n := stands[e.in.effect]
		delete(stands, e.in.effect)
		unknown := effectOf(e.in, e.out.err) == uncertain
		committed := e.out.err == nil && !e.out.again && !e.in.outcome.Failed
		switch {
		case n > 1, n == 1 && !committed && !unknown, n == 1 && e.in.outcome.Failed, n == 0 && committed:
			return fmt.Errorf("%v → %s, and its effect exists %d times", e.in, e.out.describe(once), n)
		case unknown && e.in.outcome.Failed: // leaves no effect to tell by
		case unknown && n == 1:
			e.out, e.open = output{kept: e.in.outcome}, true
		case unknown:
			e.out.err = errFails // and so has done nothing
		}
	}
	if len(stands) > 0 {
		return fmt.Errorf("effects that no call made: %v", stands)
	}
	return nil
}

// behindATransaction reports whether a claim was refused because another caller's transaction held the ID. The
// outcome of that transaction is not visible yet, so the claim has no result to check. But such a transaction must
// exist: one that overlaps the claim, or whose outcome is unknown, or that was refused. Begin does not wait for the
// rollback of a refused transaction, so that may hold the ID for some time after its response.
func (h history) behindATransaction(e event) bool {
	r := e.out.grant.Record
	held := e.out.grant.Verdict == store.InFlight && r.LeaseLeft() == 0 ||
		e.out.grant.Verdict == store.Mismatch && r.CreatedAt.IsZero()
	if !held {
		return false
	}
	for _, o := range h.events {
		if o.in.call == once && o.in.id == e.in.id && o.call < e.answer &&
			(e.call < o.answer || effectOf(o.in, o.out.err) != certain || o.open || o.out.again) {
			return true
		}
	}
	return false
}
