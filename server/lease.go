package server

import (
	"context"
	"errors"
	"time"

	"github.com/redo-go/redo/internal/settle"
	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/store"
)

// A leaseOwnership owns a key by the lease on its record, which is renewed while the handler runs.
type leaseOwnership struct{ call *execution }

// context implements ownership.
func (l leaseOwnership) context(now time.Time) context.Context {
	return l.call.hold(l.call.asked, now)
}

// settle implements ownership. It repeats the write for StoreTimeout. If the store has not accepted it by then, the
// attempts go on in the background, and this request still owns the key.
func (l leaseOwnership) settle(o store.Outcome, _ bool) error {
	c := l.call
	ctx := c.callContext(time.Now())
	defer c.endCall()
	if c.storeTimeout >= c.leaseTTL/4 {
		// The lease is not renewed during a call, and may end while the call hangs. If a renewal hangs too, a third of
		// the lease is left.
		c.exclude()
	}
	err := c.store.Complete(ctx, c.lease, o)
	if settle.Open(err) {
		s := c.settlement()
		s.Outcome = o
		err = l.persist(ctx, s, err)
	}
	if !c.kept {
		c.running.remove(c.gate, c.lease) // a client may repeat as soon as it has the response
	}
	c.err = errors.Join(c.err, err)
	return err
}

// persist goes on with a Complete that returned err.
func (l leaseOwnership) persist(ctx context.Context, s *settlement, err error) error {
	if err = s.Check(ctx, err); !settle.Open(err) {
		return err
	}
	l.call.exclude()
	if err = s.repeat(ctx, 0, err); settle.Open(err) {
		l.call.kept = l.call.background.start(s, err)
	}
	return err
}

// release implements ownership. A release that fails goes on in the background, since the response does not depend on
// it.
func (l leaseOwnership) release() error {
	c := l.call
	ctx := c.callContext(time.Now())
	defer c.endCall()
	err := c.store.Release(ctx, c.lease)
	if settle.Open(err) {
		s := c.settlement()
		s.Release = true
		if err = s.Check(ctx, err); settle.Open(err) {
			c.exclude()
			c.kept = c.background.start(s, err)
		}
	}
	if err == nil {
		c.event.To = 0
	}
	c.err = errors.Join(c.err, err)
	return onlyLost(err)
}

// handBack implements ownership: it gives up the lease and keeps the record. If that fails, the lease expires.
func (l leaseOwnership) handBack() error {
	c := l.call
	ctx := c.callContext(time.Now())
	defer c.endCall()
	c.awaitRenewal() // one that ends later would take the lease again
	err := c.store.Extend(ctx, c.lease, 0, nil)
	c.err = errors.Join(c.err, err)
	return onlyLost(err)
}

// onlyLost returns err if it is store.ErrLost.
func onlyLost(err error) error {
	if errors.Is(err, store.ErrLost) {
		return err
	}
	return nil
}

// unfinished implements ownership: the effect is made, and its response is not stored.
func (leaseOwnership) unfinished(status int) []byte { return wire.AppendTombstone(nil, status) }

// applied implements ownership. The end of the handler's context does not end the attempts, because the effect is
// made.
func (l leaseOwnership) applied() error {
	return l.keep(&l.call.root, func(n *note) bool {
		if n.applied {
			return false
		}
		n.applied = true
		return true
	})
}

// checkpoint implements ownership.
func (l leaseOwnership) checkpoint(ctx context.Context, meta []byte) error {
	return l.keep(ctx, func(n *note) bool {
		n.checkpoint = append([]byte{}, meta...) // not nil: Recover gets nil only if there was no checkpoint
		return true
	})
}

// keep writes the note that change returns true for, and renews the lease with it. It repeats the write for
// StoreTimeout.
func (l leaseOwnership) keep(ctx context.Context, change func(*note) bool) error {
	c := l.call
	c.noteMu.Lock() // two writes of one handler must not overtake each other
	defer c.noteMu.Unlock()
	changed := c.note
	if !change(&changed) {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.storeTimeout, errStoreTimeout)
	defer cancel()
	write := func() error { return c.store.Extend(ctx, c.lease, c.leaseTTL, changed.encode()) }
	err := settle.Repeat(ctx, c.leaseTTL, write(), write)
	if err == nil {
		c.note = changed
	}
	return err
}
