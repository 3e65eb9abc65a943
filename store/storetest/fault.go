package storetest

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/redo-go/redo/store"
)

// A Fault is a way in which a store fails.
type Fault uint8

// The faults of [Faults].
const (
	// Unreachable: no request reaches the backend.
	Unreachable Fault = iota + 1
	// ResponseLost: requests reach the backend and no response arrives. A request on a new connection may be lost too,
	// because its handshake fails.
	ResponseLost
	// ResponseCut: each response ends halfway, and its connection with it.
	ResponseCut
	// Closed: the store is closed.
	Closed
)

// Faults sets the function that makes a store fail. Every call on st meets the fault until heal is called. A closed
// store is not healed. Inject returns nil if the store can't fail in this way, and the case is skipped. Without this
// option all cases of faults are skipped.
//
// A store with a server is opened through a proxy. The proxy closes connections, refuses new ones, or drops the
// server's bytes. st may be a store.TxStore of RunTx.
func Faults(inject func(t *testing.T, st store.Store, f Fault) (heal func())) Option {
	return optionFunc(func(c *config) { c.faults = inject })
}

var faultCases = []Case{{
	Name: "unreachable store changes nothing",
	Rule: "A call that does not reach the backend is ErrUnavailable, or ErrUnknown if it writes and may have been " +
		"sent. It is never ErrNotFound or ErrLost: an absent record or a lost lease lets the work be done again.",
	run: func(t *trial) {
		st := t.open()
		pending := t.reserve(st, leased("pending"), store.Acquired).Record
		settled := t.find(st, t.settle(st, leased("settled"), store.Outcome{Result: []byte("result")}).ID)
		heal := t.inject(st, Unreachable)
		for _, c := range t.calls(st, pending.Lease(), settled.Lease()) {
			err := c.call(t.patient())
			if c.waits || c.writes && errors.Is(err, store.ErrUnknown) {
				continue
			}
			t.is(err, store.ErrUnavailable, c.name+" of an unreachable store")
			t.noVerdict(err, c.name)
		}
		t.heal(st, heal, pending.ID)
		t.unchanged(st, pending)
		t.unchanged(st, settled)
		t.absent(st, leased("absent").ID)
		t.ok(st.Complete(t.Context(), pending.Lease(), store.Outcome{}), "Complete after the outage")
	},
}, {
	Name: "lost response of a reserve is settled by its owner",
	Rule: "If the response to Reserve is lost, the error is ErrUnknown, or ErrUnavailable if nothing was changed. " +
		"Find and Held return the grant if the claim was made. If it was not, the claim can be made again.",
	run: func(t *trial) {
		st := t.open()
		watch := t.reserve(st, leased("watch"), store.Acquired).Lease
		t.reserve(st, unleased("taken over"), store.Acquired)
		t.pass(st, watch.ID, short)
		for key, want := range map[string]store.Verdict{"new": store.Acquired, "taken over": store.TakenOver} {
			c := leased(key)
			c.Owner = "lost"
			heal := t.inject(st, ResponseLost)
			g, err := st.Reserve(t.patient(), c)
			t.heal(st, heal, watch.ID)
			t.lost(err, "Reserve", func() bool {
				r, err := st.Find(t.Context(), c.ID)
				return err == nil && r.Owner == c.Owner
			})
			if err != nil {
				g = t.recovered(st, c)
			}
			if g.Verdict != want {
				t.fatalf("the claim whose response was lost has verdict %q, want %q", g.Verdict, want)
			}
			t.owned(t.reserve(st, leased(key), store.InFlight).Record, c.Owner)
			t.ok(st.Complete(t.Context(), g.Lease, store.Outcome{}), "Complete")
		}
	},
}, {
	Name: "lost response of a write can be repeated",
	Rule: "If the response to Extend, Complete, Release or Forget is lost, the error is ErrUnknown, or " +
		"ErrUnavailable if nothing was changed. It is not ErrLost, because the record was the caller's. The same " +
		"call after that makes the change, or is ErrLost because the change was made.",
	run: func(t *trial) {
		st := t.open()
		watch := t.reserve(st, leased("watch"), store.Acquired).Lease
		lose := func(call string, write func(ctx context.Context) error, id store.ID, made func(r store.Record) bool) {
			t.Helper()
			heal := t.inject(st, ResponseLost)
			err := write(t.patient())
			t.heal(st, heal, watch.ID)
			isMade := func() bool {
				r, err := st.Find(t.Context(), id)
				if err != nil && !errors.Is(err, store.ErrNotFound) {
					t.fatalf("Find after %s: %v", call, err)
				}
				return made(r)
			}
			t.lost(err, call, isMade)
			if err != nil {
				if err := write(t.patient()); !errors.Is(err, store.ErrLost) {
					t.ok(err, "the second "+call)
				}
			}
			if !isMade() {
				t.fatalf("%s whose response was lost is not made", call)
			}
		}
		l := t.reserve(st, leased("completed"), store.Acquired).Lease
		lose("Extend", func(ctx context.Context) error { return st.Extend(ctx, l, long, []byte("progress")) },
			l.ID, func(r store.Record) bool { return string(r.Meta) == "progress" })
		lose("Complete", func(ctx context.Context) error {
			return st.Complete(ctx, l, store.Outcome{Result: []byte("result")})
		}, l.ID, func(r store.Record) bool { return r.Fence == l.Fence && string(r.Result) == "result" })
		if f, ok := t.shown(st).(store.Forgetter); ok {
			lose("Forget", func(ctx context.Context) error { return f.Forget(ctx, l) },
				l.ID, func(r store.Record) bool { return r.State == 0 })
		}
		released := t.reserve(st, leased("released"), store.Acquired).Lease
		lose("Release", func(ctx context.Context) error { return st.Release(ctx, released) },
			released.ID, func(r store.Record) bool { return r.State == 0 })
	},
}, {
	Name: "cut response is no record",
	Rule: "A response that ends halfway is ErrUnavailable, or ErrUnknown from Reserve. It is never taken for an " +
		"absent record, for a shorter result, or for a whole list.",
	run: func(t *trial) {
		st := t.open()
		result := bytes.Repeat(everyByte(), 1024)
		settled := t.find(st, t.settle(st, leased("settled"), store.Outcome{Result: result}).ID)
		for _, key := range []string{"a", "b", "c", "d"} {
			c := unleased(key)
			c.Meta = bytes.Repeat(everyByte(), 256)
			t.reserve(st, c, store.Acquired)
		}
		heal := t.inject(st, ResponseCut)
		r, err := st.Find(t.patient(), settled.ID)
		t.whole(r, err, result, "Find")
		g, err := st.Reserve(t.patient(), leased("settled"))
		if !errors.Is(err, store.ErrUnknown) {
			t.whole(g.Record, err, result, "Reserve")
		}
		if l, ok := t.shown(st).(store.Lister); ok {
			n, last := 0, error(nil)
			for _, err := range l.Pending(t.patient(), "scope") {
				if last = err; err == nil {
					n++
				}
			}
			if last == nil && n != 4 {
				t.fatalf("a list that was cut has %d of 4 records, and no error", n)
			}
		}
		t.heal(st, heal, settled.ID)
		t.unchanged(st, settled)
	},
}, {
	Name: "closed store is unavailable",
	Rule: "After Close every method is ErrUnavailable, without a wait. A program that shuts down gets an error, and " +
		"no verdict.",
	run: func(t *trial) {
		st := t.open()
		pending := t.reserve(st, leased("pending"), store.Acquired).Lease
		settled := t.settle(st, leased("settled"), store.Outcome{Result: []byte("result")})
		t.inject(st, Closed)
		for _, c := range t.calls(st, pending, settled) {
			err := c.call(t.patient())
			t.is(err, store.ErrUnavailable, c.name+" of a closed store")
			t.noVerdict(err, c.name)
		}
	},
}}

// inject makes the store fail, or skips the case.
func (t *trial) inject(st store.Store, f Fault) (heal func()) {
	t.Helper()
	if t.faults == nil {
		t.Skipf("the suite was run without Faults")
	}
	if heal = t.faults(st, f); heal == nil {
		t.Skipf("the store can't fail in this way")
	}
	return heal
}

// heal ends the fault, and waits until the store can read an existing record again.
func (t *trial) heal(st store.Store, heal func(), id store.ID) {
	t.Helper()
	heal()
	t.until("the store works again", func() bool {
		_, err := st.Find(t.patient(), id)
		return err == nil
	})
}

// recovered returns the grant of a claim whose response was lost, as its owner would get it.
func (t *trial) recovered(st store.Store, c store.Claim) store.Grant {
	t.Helper()
	if r, err := st.Find(t.Context(), c.ID); err == nil {
		if g, ok := store.Held(r, c); ok {
			return g
		}
	}
	g, err := st.Reserve(t.Context(), c)
	t.ok(err, "the second Reserve")
	if g.Verdict == store.InFlight { // the first one was carried out late
		g, _ = store.Held(g.Record, c)
	}
	return g
}

// lost checks the error of a write whose response was lost. It is ErrUnavailable only if the write is not made.
func (t *trial) lost(err error, call string, made func() bool) {
	t.Helper()
	switch {
	case err == nil, errors.Is(err, store.ErrUnknown):
	case made():
		t.fatalf("%s whose response was lost is made: error %v, want one that is %q", call, err, store.ErrUnknown)
	default:
		t.is(err, store.ErrUnavailable, call+" whose response was lost")
	}
	t.noVerdict(err, call)
}

// whole checks a record that was read from responses that are cut: it is an error, or the whole record.
func (t *trial) whole(r store.Record, err error, result []byte, call string) {
	t.Helper()
	if err == nil {
		t.bytes(r.Result, result, "the result that "+call+" returns")
		return
	}
	t.is(err, store.ErrUnavailable, call+" whose response was cut")
	t.noVerdict(err, call)
}

// noVerdict checks that an error of the store is no statement about the record.
func (t *trial) noVerdict(err error, call string) {
	t.Helper()
	for _, verdict := range []error{store.ErrNotFound, store.ErrLost, store.ErrDamaged, store.ErrInvalid} {
		if errors.Is(err, verdict) {
			t.fatalf("%s of a store that fails: error %v, which is %q", call, err, verdict)
		}
	}
}

// A call is a call of one method.
type call struct {
	name   string
	writes bool
	waits  bool // it may wait for the store to come back
	call   func(ctx context.Context) error
}

// calls returns a call of every method that the store has. Each would succeed, or find nothing, if the store worked.
func (t *trial) calls(st store.Store, pending, settled store.Lease) []call {
	absent := leased("absent").ID
	reserve := func(c store.Claim) func(ctx context.Context) error {
		return func(ctx context.Context) error { _, err := st.Reserve(ctx, c); return err }
	}
	find := func(id store.ID) func(ctx context.Context) error {
		return func(ctx context.Context) error { _, err := st.Find(ctx, id); return err }
	}
	list := []call{
		{name: "Reserve of an absent ID", writes: true, call: reserve(leased("absent"))},
		{name: "Reserve of a settled record", writes: true, call: reserve(leased("settled"))},
		{
			name: "Extend", writes: true,
			call: func(ctx context.Context) error { return st.Extend(ctx, pending, 3*day, nil) },
		},
		{name: "Complete", writes: true, call: func(ctx context.Context) error {
			return st.Complete(ctx, pending, store.Outcome{})
		}},
		{name: "Release", writes: true, call: func(ctx context.Context) error { return st.Release(ctx, pending) }},
		{name: "Find", call: find(settled.ID)},
		{name: "Find of an absent ID", call: find(absent)},
		{
			name: "Purge", writes: true,
			call: func(ctx context.Context) error { _, err := st.Purge(ctx, 10); return err },
		},
	}
	own := t.shown(st)
	if f, ok := own.(store.Forgetter); ok {
		list = append(list, call{name: "Forget", writes: true, call: func(ctx context.Context) error {
			return f.Forget(ctx, settled)
		}})
	}
	if d, ok := own.(store.Dropper); ok {
		list = append(list, call{name: "Drop", writes: true, call: func(ctx context.Context) error {
			return d.Drop(ctx, absent)
		}})
	}
	if c, ok := own.(store.Checker); ok {
		list = append(list, call{name: "Check", call: c.Check})
	}
	if w, ok := own.(store.Waiter); ok {
		list = append(list, call{name: "Wait", waits: true, call: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, short)
			defer cancel()
			return w.Wait(ctx, pending.ID, pending.Fence)
		}})
	}
	if l, ok := own.(store.Lister); ok {
		list = append(list, call{name: "Pending", call: func(ctx context.Context) (last error) {
			for _, err := range l.Pending(ctx, "scope") {
				last = err
			}
			return last
		}})
	}
	return list
}

// shown returns the store itself, which may have more methods than store.TxStore.
func (t *trial) shown(st store.Store) store.Store {
	if h, ok := st.(interface{ shown() store.Store }); ok {
		return h.shown()
	}
	return st
}
