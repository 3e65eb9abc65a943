package storetest

import (
	"time"

	"github.com/redo-go/redo/store"
)

// slack is the greatest drift between the store's clock and the test's within a case, if they are of two machines.
const slack = time.Second

var clockCases = []Case{{
	Name: "record's instants come from one clock",
	Rule: "The API takes durations and no instants, so that the caller's clock can't be used. A record's instants " +
		"are compared with its own ReadAt. A record is never read before it was made, and gets older with each " +
		"read, no faster than time passes.",
	run: func(t *trial) {
		st, c := t.open(), leased("k")
		start := time.Now()
		g := t.reserve(st, c, store.Acquired)
		records := []store.Record{g.Record}
		for i := range 8 {
			t.aged(st, c.ID, time.Duration(i)*poll)
			records = append(records, t.find(st, c.ID), t.reserve(st, c, store.InFlight).Record)
		}
		elapsed := time.Since(start)

		var age time.Duration
		for i, r := range records {
			switch {
			case r.CreatedAt.IsZero() || r.ReadAt.IsZero():
				t.fatalf("reading %d: created at %v and read at %v, want both set", i, r.CreatedAt, r.ReadAt)
			case r.Age() < age:
				t.fatalf("reading %d: the record is %v old after it was %v", i, r.Age(), age)
			case r.Age() > elapsed+slack:
				t.fatalf("reading %d: the record is %v old, and was made %v ago", i, r.Age(), elapsed)
			case r.LeaseLeft() > c.Lease+precision || r.LeaseLeft() < c.Lease-elapsed-slack:
				t.fatalf("reading %d: the lease has %v left of %v after %v", i, r.LeaseLeft(), c.Lease, elapsed)
			}
			age = r.Age()
		}
	},
}, {
	Name: "settled record's instants come from the same clock",
	Rule: "Complete keeps the creation time, and sets the expiry by the store's clock too.",
	run: func(t *trial) {
		st, c := t.open(), leased("k")
		start := time.Now()
		g := t.reserve(st, c, store.Acquired)
		t.aged(st, c.ID, short)
		t.ok(st.Complete(t.Context(), g.Lease, store.Outcome{Retention: long}), "Complete")
		r := t.find(st, c.ID)
		elapsed := time.Since(start)
		if !r.CreatedAt.Equal(g.Record.CreatedAt) {
			t.fatalf("created at %v, want %v", r.CreatedAt, g.Record.CreatedAt)
		}
		if r.Age() < 0 || r.Age() > elapsed+slack {
			t.fatalf("the record is %v old, and was made %v ago", r.Age(), elapsed)
		}
		if left := r.ExpiresAt.Sub(r.ReadAt); left > long+precision || left < long-elapsed-slack {
			t.fatalf("%v are left of a retention of %v after %v", left, long, elapsed)
		}
	},
}}
