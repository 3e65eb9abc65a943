package storetest

import (
	"context"
	"strings"
	"time"

	"github.com/redo-go/redo/store"
)

var refusalCases = []Case{{
	Name: "invalid claim is refused and changes nothing",
	Rule: "A claim that breaks a rule is ErrInvalid, with and without a record: no record is made or taken over, and " +
		"no value is cut or corrected.",
	run: func(t *trial) {
		st := t.open()
		before := t.reserve(st, unleased("k"), store.Acquired).Record
		for what, spoil := range map[string]func(*store.Claim){
			"a negative lease":     func(c *store.Claim) { c.Lease = -1 },
			"an endless lease":     func(c *store.Claim) { c.Lease = store.Forever },
			"no retention":         func(c *store.Claim) { c.Retention = 0 },
			"a negative retention": func(c *store.Claim) { c.Retention = -time.Second },
			"too long a meta":      func(c *store.Claim) { c.Meta = make([]byte, store.MaxMeta+1) },
			"too long an owner":    func(c *store.Claim) { c.Owner = strings.Repeat("o", store.MaxOwner+1) },
		} {
			for _, c := range []store.Claim{leased("k"), leased("absent")} {
				spoil(&c)
				_, err := st.Reserve(t.Context(), c)
				t.is(err, store.ErrInvalid, "Reserve with "+what)
			}
		}
		t.unchanged(st, before)
		t.absent(st, leased("absent").ID)
	},
}, {
	Name: "invalid id is refused",
	Rule: "An empty key and parts over their limits are ErrInvalid. A store that cuts them would give two callers " +
		"one record.",
	run: func(t *trial) {
		st := t.open()
		for _, id := range []store.ID{
			{Scope: "scope"},
			{},
			{Scope: "scope", Key: strings.Repeat("k", store.MaxKey+1)},
			{Scope: strings.Repeat("s", store.MaxScope+1), Key: "k"},
		} {
			c := leased("k")
			c.ID = id
			_, err := st.Reserve(t.Context(), c)
			t.is(err, store.ErrInvalid, "Reserve")
		}
		t.absent(st, store.ID{Scope: "scope", Key: strings.Repeat("k", store.MaxKey)})
		t.absent(st, store.ID{Scope: strings.Repeat("s", store.MaxScope), Key: "k"})
	},
}, {
	Name: "invalid extension is refused and changes nothing",
	Rule: "Extend keeps a claim's rules: no negative lease, none without an end, no meta over its limit.",
	run: func(t *trial) {
		st := t.open()
		g := t.reserve(st, leased("k"), store.Acquired)
		for _, d := range []time.Duration{-1, store.Forever} {
			t.is(st.Extend(t.Context(), g.Lease, d, []byte("meta")), store.ErrInvalid, "Extend by "+d.String())
		}
		t.is(st.Extend(t.Context(), g.Lease, 3*day, make([]byte, store.MaxMeta+1)),
			store.ErrInvalid, "Extend with too long a meta")
		t.unchanged(st, g.Record)
	},
}, {
	Name: "invalid outcome is refused and changes nothing",
	Rule: "A negative retention is ErrInvalid, and the record stays pending for its owner to try again.",
	run: func(t *trial) {
		st := t.open()
		g := t.reserve(st, leased("k"), store.Acquired)
		t.is(st.Complete(t.Context(), g.Lease, store.Outcome{Retention: -time.Second}), store.ErrInvalid, "Complete")
		t.unchanged(st, g.Record)
	},
}, {
	Name: "absent id is not found",
	Rule: "Find returns ErrNotFound for an ID that was never reserved, and makes no record.",
	run: func(t *trial) {
		st := t.open()
		t.absent(st, leased("k").ID)
		t.absent(st, leased("k").ID)
		t.reserve(st, leased("k"), store.Acquired)
	},
}, {
	Name: "ended context changes nothing",
	Rule: "Every method returns the error of a context that has ended before the call, and does nothing: the caller " +
		"has given up and may not read the result.",
	run: func(t *trial) {
		st := t.open()
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		before := t.reserve(st, unleased("k"), store.Acquired).Record
		l := before.Lease()
		settled := t.settle(st, leased("settled"), store.Outcome{})
		expired := unleased("expired")
		expired.Retention = short
		t.reserve(st, expired, store.Acquired)
		t.pass(st, l.ID, 2*short)

		_, err := st.Reserve(canceled, leased("absent"))
		t.is(err, context.Canceled, "Reserve of an absent ID")
		_, err = st.Reserve(canceled, leased("k"))
		t.is(err, context.Canceled, "Reserve of a record without a lease")
		t.is(st.Extend(canceled, l, 3*day, []byte("meta")), context.Canceled, "Extend")
		t.is(st.Complete(canceled, l, store.Outcome{}), context.Canceled, "Complete")
		t.is(st.Complete(canceled, l, store.Outcome{Lazy: true}), context.Canceled, "lazy Complete")
		t.is(st.Release(canceled, l), context.Canceled, "Release")
		_, err = st.Find(canceled, l.ID)
		t.is(err, context.Canceled, "Find")
		n, err := st.Purge(canceled, 10)
		t.is(err, context.Canceled, "Purge")
		if n != 0 {
			t.fatalf("Purge deleted %d records under an ended context", n)
		}
		if f, ok := st.(store.Forgetter); ok {
			t.is(f.Forget(canceled, settled), context.Canceled, "Forget")
			t.state(t.find(st, settled.ID), store.StateComplete)
		}

		t.unchanged(st, before)
		n, err = st.Purge(t.Context(), 10)
		t.ok(err, "Purge")
		if n != 1 && !t.selfExpiring {
			t.fatalf("Purge deleted %d records, want the one that the ended context left", n)
		}
		t.absent(st, leased("absent").ID)
	},
}}
