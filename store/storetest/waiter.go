package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/redo-go/redo/store"
)

var waiterCases = []Case{{
	Name: "wait ends when the record is completed",
	Rule: "A waiter for another owner's result is woken when the result is there, complete or failed, so that no " +
		"caller must poll.",
	run: func(t *trial) {
		st := t.open()
		for key, failed := range map[string]bool{"complete": false, "failed": true} {
			l := t.reserve(st, leased(key), store.Acquired).Lease
			wait := t.waiting(st, l, racers)
			t.ok(st.Complete(t.Context(), l, store.Outcome{Failed: failed, Result: []byte("result")}), "Complete")
			wait(nil)
		}
	},
}, {
	Name: "wait ends when the record is released",
	Rule: "A release wakes the waiters: one of them can acquire the ID.",
	run: func(t *trial) {
		st := t.open()
		l := t.reserve(st, leased("k"), store.Acquired).Lease
		wait := t.waiting(st, l, racers)
		t.ok(st.Release(t.Context(), l), "Release")
		wait(nil)
	},
}, {
	Name: "wait ends when the record is taken over",
	Rule: "The record is no longer pending under the fence that was waited for.",
	run: func(t *trial) {
		st := t.open()
		l := t.reserve(st, unleased("k"), store.Acquired).Lease
		wait := t.waiting(st, l, 1)
		t.reserve(st, leased("k"), store.TakenOver)
		wait(nil)
	},
}, {
	Name: "wait ends when the record expires",
	Rule: "An expired record is absent. Its waiters are woken without any call to the store.",
	run: func(t *trial) {
		st, c := t.open(), unleased("k")
		c.Retention = short
		l := t.reserve(st, c, store.Acquired).Lease
		t.waiter(st)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		t.ok(st.(store.Waiter).Wait(ctx, l.ID, l.Fence), "Wait")
		t.absent(st, l.ID)
	},
}, {
	Name: "wait does not end at an expiry that was moved",
	Rule: "Extend can move the expiry while others wait; they go on waiting.",
	run: func(t *trial) {
		st, c := t.open(), unleased("k")
		t.waiter(st)
		// The extension must return before the expiry, which a slow machine may miss. A reader may see the old expiry
		// until then.
		for c.Retention = short; c.Retention < patience; c.Retention *= 2 {
			c.ID.Key += "k"
			begun := time.Now()
			l := t.reserve(st, c, store.Acquired).Lease
			wait := t.waitingUntil(st, l, 4*c.Retention)
			if st.Extend(t.Context(), l, long, nil) == nil && time.Since(begun) < c.Retention {
				wait(context.DeadlineExceeded)
				t.state(t.find(st, l.ID), store.StatePending)
				return
			}
		}
		t.fatalf("no record of at most %v could be extended before it expired", patience)
	},
}, {
	Name: "wait goes on while the record is pending",
	Rule: "Wait does not return early, neither for a lease that is extended nor for other records. If its context " +
		"ends, it returns the context's error.",
	run: func(t *trial) {
		st := t.open()
		l := t.reserve(st, leased("k"), store.Acquired).Lease
		other := t.reserve(st, leased("other"), store.Acquired).Lease
		wait := t.waitingUntil(st, l, 2*short)
		t.ok(st.Extend(t.Context(), l, 2*long, []byte("meta")), "Extend")
		t.ok(st.Complete(t.Context(), other, store.Outcome{}), "Complete of another record")
		t.reserve(st, leased("k"), store.InFlight)
		wait(context.DeadlineExceeded)
		t.state(t.find(st, l.ID), store.StatePending)
	},
}, {
	Name: "wait for what is not pending ends at once",
	Rule: "There is nothing to wait for when the record is absent, settled, or under another fence.",
	run: func(t *trial) {
		st := t.open()
		complete := t.settle(st, leased("complete"), store.Outcome{})
		failed := t.settle(st, leased("failed"), store.Outcome{Failed: true})
		pending := t.reserve(st, leased("pending"), store.Acquired).Lease
		for what, l := range map[string]store.Lease{
			"absent":              {ID: leased("absent").ID, Fence: 1},
			"complete":            complete,
			"failed":              failed,
			"under another fence": {ID: pending.ID, Fence: pending.Fence - 1},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			t.ok(t.waiter(st).Wait(ctx, l.ID, l.Fence), "Wait for a record that is "+what)
			cancel()
		}
	},
}, {
	Name: "wait under a canceled context returns its error",
	Rule: "Wait returns the error of a context that ends first, or has ended before. The caller then knows nothing " +
		"of the record.",
	run: func(t *trial) {
		st := t.open()
		l := t.reserve(st, leased("k"), store.Acquired).Lease
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(short, cancel)
		t.is(t.waiter(st).Wait(ctx, l.ID, l.Fence), context.Canceled, "Wait whose context is canceled")
		t.is(t.waiter(st).Wait(ctx, l.ID, l.Fence), context.Canceled, "Wait under an ended context")
	},
}}

func (t *trial) waiter(st store.Store) store.Waiter {
	t.Helper()
	w, ok := st.(store.Waiter)
	if !ok {
		t.Skipf("the store is no Waiter")
	}
	return w
}

// waiting lets n goroutines wait for the lease's record. The function that it returns checks their results, and
// ends the case if one is wrong.
func (t *trial) waiting(st store.Store, l store.Lease, n int) func(want error) {
	t.Helper()
	return t.startWaiting(st, l, patience, n)
}

// waitingUntil is waiting for one goroutine, whose context ends after d.
func (t *trial) waitingUntil(st store.Store, l store.Lease, d time.Duration) func(want error) {
	t.Helper()
	return t.startWaiting(st, l, d, 1)
}

func (t *trial) startWaiting(st store.Store, l store.Lease, d time.Duration, n int) func(want error) {
	t.Helper()
	w := t.waiter(st)
	ctx, cancel := context.WithTimeout(t.Context(), d)
	results := make(chan error, n)
	for range n {
		go func() { results <- w.Wait(ctx, l.ID, l.Fence) }()
	}
	// Most of them wait by the time that this has passed; the rules hold for those that don't too.
	<-time.After(short / 4)
	left := n
	collect := func() (err error, ok bool) {
		select {
		case err := <-results:
			left--
			return err, true
		case <-time.After(2 * patience):
			return nil, false
		}
	}
	t.Cleanup(func() {
		cancel()
		for left > 0 {
			if _, ok := collect(); !ok {
				t.Errorf("%d calls of Wait outlive their context", left)
				return
			}
		}
	})
	return func(want error) {
		t.Helper()
		for left > 0 {
			switch err, ok := collect(); {
			case !ok:
				t.fatalf("%d of %d calls of Wait outlive their context", left, n)
			case !errors.Is(err, want):
				t.fatalf("Wait returned the error %v, want %v", err, want)
			}
		}
	}
}
