package server

import (
	"context"
	"errors"
	"time"

	"github.com/redo-go/redo/store"
)

// The calls to the store, each of which the observer is told of.

func (c *execution) tryReserve() (store.Grant, error) {
	if c.begin != nil {
		return c.tryBegin()
	}
	ctx, began := c.visit(), c.clock()
	c.asked = time.Now()
	g, err := c.store.Reserve(ctx, c.claim)
	if err == nil && g.Verdict.Owned() {
		c.lease, c.own = g.Lease, byLease{c}
	}
	c.saw("Reserve", began, err)
	return g, err
}

func (c *execution) tryBegin() (store.Grant, error) {
	ctx, began := c.visit(), c.clock()
	tx, g, err := c.begin(ctx, c.claim)
	if err == nil && g.Verdict.Owned() {
		if tx == nil {
			err = errors.New("server: the store gave no transaction")
		} else {
			c.lease, c.own = g.Lease, &inTransaction{call: c, tx: tx}
		}
	}
	c.saw("Begin", began, err)
	return g, err
}

func (c *execution) extend(ctx context.Context, d time.Duration, meta []byte) error {
	began := c.clock()
	err := c.store.Extend(ctx, c.lease, d, meta)
	c.saw("Extend", began, err)
	return err
}

func (c *execution) complete(ctx context.Context, o store.Outcome) error {
	began := c.clock()
	err := c.store.Complete(ctx, c.lease, o)
	c.saw("Complete", began, err)
	return err
}

func (c *execution) release(ctx context.Context) error {
	began := c.clock()
	err := c.store.Release(ctx, c.lease)
	c.saw("Release", began, err)
	return err
}

func (c *execution) commit(ctx context.Context, tx transaction, o store.Outcome) error {
	began := c.clock()
	err := tx.Commit(ctx, o)
	c.saw("Commit", began, err)
	return err
}

func (c *execution) discard(ctx context.Context, tx transaction, o store.Outcome) error {
	began := c.clock()
	err := tx.Discard(ctx, o)
	c.saw("Discard", began, err)
	return err
}

func (c *execution) rollback(ctx context.Context, tx transaction) error {
	began := c.clock()
	err := tx.Rollback(ctx)
	c.saw("Rollback", began, err)
	return err
}

func (c *execution) find(ctx context.Context, id store.ID) (store.Record, error) {
	began := c.clock()
	rec, err := c.store.Find(ctx, id)
	c.saw("Find", began, err)
	return rec, err
}

// clock is read only for an observer.
func (c *execution) clock() time.Time {
	if c.observer == nil {
		return time.Time{}
	}
	return time.Now()
}

func (c *execution) saw(method string, began time.Time, err error) {
	if c.observer != nil {
		c.observer.ObserveStore(c.r.Context(), StoreCall{Method: method, Elapsed: time.Since(began), Err: err})
	}
}
