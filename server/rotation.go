package server

import (
	"context"
	"errors"
	"time"

	"github.com/redo-go/redo/store"
)

// While a pepper is replaced, a key has one record ID for each secret, and processes disagree on which of them is for
// new records. Four rules keep two handlers from running for one key:
//
//   - A record stays under the secret under which it was made. A request that finds one never makes another.
//   - A request makes a record only under the first secret, and only while it holds the key's IDs under all other
//     secrets. It holds them by guards: records that expire by themselves.
//   - A request that finds a record, and then acquires the ID because the record has gone, gives it up again. Another
//     request may have found the key free meanwhile.
//   - If that fails, it leaves a record for which no handler ran. A request that takes a record over looks for an older
//     one under the other secrets, and then gives it up too.
//
// A request that loses such a race is refused as in flight.

// reserve claims the key under one of the secrets of Pepper.
func (c *execution) reserve() (store.Grant, error) {
	if len(c.peppers) < 2 {
		return c.reserveRecord()
	}
	ids, fingerprint := c.recordIDs(c.r, c.key, c.caller), c.claim.Fingerprint
	if g, ok := c.runs(ids); ok {
		return g, nil // also while the store is down
	}
	for _, id := range ids {
		_, err := c.store.Find(c.callContext(time.Now()), id)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return store.Grant{}, err
		}
		c.used = true
		c.claim.ID, c.claim.Fingerprint = id, fingerprint
		g, err := c.reserveRecord()
		if err == nil && g.Verdict == store.Acquired {
			return c.retreat(g), nil
		}
		if err != nil || g.Verdict != store.TakenOver {
			return g, err
		}
		older, err := c.hasOlder(g, ids)
		switch {
		case older: // no handler ran for this record
			c.disown(c.own.release)
			continue
		case err != nil, c.begin == nil && c.late(): // the lease may have ended
			return c.retreat(g), err
		}
		return g, nil
	}
	c.claim.ID, c.claim.Fingerprint = ids[0], fingerprint
	return c.reserveNew(ids[1:])
}

// hasOlder reports whether the key of a record that the request has taken over has an older one under another secret.
func (c *execution) hasOlder(g store.Grant, ids []store.ID) (bool, error) {
	for _, id := range ids {
		if id == c.claim.ID {
			continue
		}
		rec, err := c.store.Find(c.callContext(time.Now()), id)
		switch {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return false, err
		case rec.State != store.StatePending, rec.Owner != "" && rec.CreatedAt.Before(g.Record.CreatedAt): // no guard
			return true, nil
		}
	}
	return false, nil
}

// runs returns the verdict on the key if this process knows of its run under one of the IDs.
func (c *execution) runs(ids []store.ID) (store.Grant, bool) {
	claim := c.claim
	for _, claim.ID = range ids {
		if g, ok := c.running.judge(c.gate, claim); ok {
			c.claim = claim
			return g, true
		}
	}
	return store.Grant{}, false
}

// reserveNew makes the key's record under the first secret while it holds the other IDs. If it then owns the key,
// serve releases these IDs at the end, because the record of an open transaction can't be found before.
func (c *execution) reserveNew(others []store.ID) (store.Grant, error) {
	began := time.Now()
	// A guard lasts twice as long as all calls up to the record can take, but for those of hours: see below.
	lasts := 2 * time.Duration(len(others)+3) * min(c.storeTimeout, time.Hour)
	for _, id := range others {
		g, err := c.store.Reserve(c.callContext(time.Now()), store.Claim{
			ID: id, Fingerprint: c.claim.Fingerprint, Lease: lasts, Retention: lasts,
		})
		if err == nil && g.Verdict == store.Acquired {
			c.guards = append(c.guards, g.Lease)
			continue
		}
		if err == nil && g.Verdict == store.TakenOver {
			err = c.store.Extend(c.callContext(time.Now()), g.Lease, 0, nil) // its own ID's rules apply to it
		}
		c.unguard()
		return inFlight(id), err
	}
	g, err := c.reserveRecord()
	if err == nil && g.Verdict.Owned() && time.Since(began) > lasts/2 {
		g = c.retreat(g) // this process was paused, and the guards may have expired
	}
	if err != nil || !g.Verdict.Owned() {
		c.unguard()
	}
	return g, err
}

// retreat gives up the record that the request has just made or taken over, and returns the grant of a key in flight.
func (c *execution) retreat(g store.Grant) store.Grant {
	giveUp := c.own.release
	if g.Verdict == store.TakenOver {
		giveUp = c.own.handBack
	}
	c.disown(giveUp)
	return inFlight(c.claim.ID)
}

// disown ends the ownership of a record by giveUp, which logs an error, and goes on in the background.
func (c *execution) disown(giveUp func() error) {
	_ = giveUp()
	c.own = nil
}

// inFlight returns the grant of a key whose owner is not known.
func inFlight(id store.ID) store.Grant {
	return store.Grant{Verdict: store.InFlight, Record: store.Record{ID: id, State: store.StatePending}}
}

// unguard releases the guards. A guard that can't be released expires, and the key is in flight until then.
func (c *execution) unguard() {
	if len(c.guards) == 0 {
		return
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(c.r.Context()), c.storeTimeout, errStoreTimeout)
	defer cancel()
	for _, l := range c.guards {
		_ = c.store.Release(ctx, l)
	}
	c.guards = nil
}
