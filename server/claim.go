package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redo-go/redo/store"
)

// tryReserve makes one call of Reserve or Begin. If a lost response hides whether the claim was made, it finds out.
func (c *execution) tryReserve() (store.Grant, error) {
	if c.begin != nil {
		return c.tryBegin()
	}
	if g, ok := c.running.judge(c.gate, c.claim); ok {
		return g, nil
	}
	if c.claim.Owner == "" {
		c.claim.Owner = c.nonce.newOwner()
	}
	c.asked = time.Now()
	ctx := c.callContext(c.asked)
	g, err := c.store.Reserve(ctx, c.claim)
	if lostResponse(err) {
		g, err = c.findClaim(ctx, err)
	}
	if err == nil && g.Verdict.Owned() {
		if c.late() {
			return c.confirm(g)
		}
		c.lease, c.own, c.kept = g.Lease, leaseOwnership{c}, false
	}
	return g, err
}

// lostResponse reports whether the claim that returned err may have been made.
func lostResponse(err error) bool {
	return errors.Is(err, store.ErrUnknown) || errors.Is(err, errStoreTimeout)
}

// late reports whether so much of the lease has passed since it was asked for that the handler must not start.
func (c *execution) late() bool { return time.Since(c.asked) >= c.leaseTTL/2 }

// confirm renews a lease that was granted late, before the handler starts. The lease may have ended meanwhile, and
// another request may run under the next one: then the key is claimed anew. If the renewal is late too, the request is
// refused, and the lease is given up.
func (c *execution) confirm(g store.Grant) (store.Grant, error) {
	c.used = c.used || g.Verdict == store.TakenOver
	c.asked = time.Now()
	err := c.store.Extend(c.callContext(c.asked), g.Lease, c.leaseTTL, nil)
	if errors.Is(err, store.ErrLost) {
		return c.tryReserve()
	}
	if err == nil && c.late() {
		err = fmt.Errorf("server: the store granted the lease after %v of its %v: %w",
			time.Since(c.asked), c.leaseTTL, store.ErrUnavailable)
	}
	c.lease, c.own, c.kept = g.Lease, leaseOwnership{c}, false
	if err != nil {
		c.retreat(g)
		return store.Grant{}, err
	}
	return g, nil
}

// findClaim settles a Reserve whose response was lost. If the record can't be read now, a background attempt gives
// the key up, since the handler does not run.
func (c *execution) findClaim(ctx context.Context, lost error) (store.Grant, error) {
	rec, err := c.store.Find(ctx, c.claim.ID)
	switch {
	case err == nil:
		if g, held := store.Held(rec, c.claim); held {
			return g, nil
		}
	case !errors.Is(err, store.ErrNotFound):
		s := c.settlement()
		s.Release, s.claim = true, c.claim
		c.background.start(s, lost)
	}
	return store.Grant{}, lost
}

func (c *execution) tryBegin() (store.Grant, error) {
	ctx, began := c.callContext(time.Now()), c.store.clock()
	tx, g, err := c.begin(ctx, c.claim)
	if err == nil && g.Verdict.Owned() {
		if tx == nil {
			err = errors.New("server: the store gave no transaction")
		} else {
			c.lease, c.own = g.Lease, &txOwnership{call: c, tx: tx}
		}
	}
	return g, c.store.saw(ctx, "Begin", began, err)
}
