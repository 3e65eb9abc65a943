package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redo-go/redo/store"
)

const (
	short = 40 * time.Millisecond // for a lease or record that must run out
	long  = time.Hour             // for one that must not
	day   = 24 * time.Hour

	// patience bounds every wait for the store. Only a broken rule uses it up.
	patience = 30 * time.Second
	// poll is the pause between two reads.
	poll = 2 * time.Millisecond
	// precision is the greatest distance of an instant from the exact one: engines keep milliseconds.
	precision = 2 * time.Millisecond
)

// A reporter is the part of *testing.T that cases use. The suite's own tests have another one, for cases that must
// fail.
type reporter interface {
	Helper()
	Context() context.Context
	Cleanup(func())
	Errorf(format string, args ...any)
	FailNow()
	Skipf(format string, args ...any)
}

// A trial is one run of a case.
type trial struct {
	reporter
	rule         string
	open         func() store.Store
	beside       func(store.Store) store.Store           // nil: no second handle
	reopen       func(store.Store) store.Store           // nil: not durable
	damage       func(store.Store, store.ID) store.Store // nil: no record can be damaged
	faults       func(store.Store, Fault) (heal func())  // nil: no fault can be injected
	selfExpiring bool
	leasesEnd    bool
	engine       *engine // nil: the case is one of Run's
}

func (t *trial) fatalf(format string, args ...any) {
	t.Helper()
	t.Errorf("%s\nthe rule: %s", fmt.Sprintf(format, args...), t.rule)
	t.FailNow()
}

// payload returns the fingerprint of a request with that body.
func payload(body string) store.Fingerprint {
	return store.Raw("POST", "/refunds", "", []byte(body))
}

// unleased returns a claim that never excludes.
func unleased(key string) store.Claim {
	return store.Claim{
		ID:          store.ID{Scope: "scope", Key: key},
		Fingerprint: payload("first"),
		Retention:   day,
		Owner:       "owner of " + key,
		Meta:        []byte("meta of the first"),
	}
}

// leased returns a claim that excludes for longer than any test runs.
func leased(key string) store.Claim {
	c := unleased(key)
	c.Lease = long
	return c
}

// reserve makes a claim that must get the verdict.
func (t *trial) reserve(st store.Store, c store.Claim, want store.Verdict) store.Grant {
	t.Helper()
	g, err := st.Reserve(t.Context(), c)
	if err != nil {
		t.fatalf("Reserve of %v: %v", c.ID, err)
	}
	if g.Verdict != want {
		t.fatalf("Reserve of %v: verdict %q, want %q", c.ID, g.Verdict, want)
	}
	return g
}

// settle claims a new ID and completes it.
func (t *trial) settle(st store.Store, c store.Claim, o store.Outcome) store.Lease {
	t.Helper()
	l := t.reserve(st, c, store.Acquired).Lease
	t.ok(st.Complete(t.Context(), l, o), "Complete")
	return l
}

// takenOver makes two records whose first owner lost them. The new owner has a lease for one, and none for the other.
// f gets the first owner's lease and the second one's grant.
func (t *trial) takenOver(st store.Store, f func(stale store.Lease, g store.Grant)) {
	t.Helper()
	for _, next := range []store.Claim{leased("leased"), unleased("unleased")} {
		stale := t.reserve(st, unleased(next.ID.Key), store.Acquired).Lease
		f(stale, t.reserve(st, next, store.TakenOver))
	}
}

func (t *trial) find(st store.Store, id store.ID) store.Record {
	t.Helper()
	r, err := st.Find(t.Context(), id)
	if err != nil {
		t.fatalf("Find of %v: %v", id, err)
	}
	return r
}

func (t *trial) absent(st store.Store, id store.ID) {
	t.Helper()
	if r, err := st.Find(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
		t.fatalf("Find of %v: state %q and error %v, want %v", id, r.State, err, store.ErrNotFound)
	}
}

func (t *trial) ok(err error, call string) {
	t.Helper()
	if err != nil {
		t.fatalf("%s: %v", call, err)
	}
}

func (t *trial) is(err, want error, call string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.fatalf("%s: error %v, want one that is %q", call, err, want)
	}
}

func (t *trial) state(r store.Record, want store.State) {
	t.Helper()
	if r.State != want {
		t.fatalf("the record of %v is %s, want %s", r.ID, r.State, want)
	}
}

// bytes compares bytes. Nil and empty are different.
func (t *trial) bytes(got, want []byte, what string) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.fatalf("%s has %d bytes, %.40q, want %d, %.40q", what, len(got), got, len(want), want)
	}
	if (got == nil) != (want == nil) {
		t.fatalf("%s: nil is %t, want %t", what, got == nil, want == nil)
	}
}

// unchanged compares all of a record except the instant at which it was read.
func (t *trial) unchanged(st store.Store, before store.Record) {
	t.Helper()
	after := t.find(st, before.ID)
	t.state(after, before.State)
	t.bytes(after.Result, before.Result, "the result, which nothing may change,")
	t.bytes(after.Meta, before.Meta, "the meta, which nothing may change,")
	switch {
	case after.Fingerprint != before.Fingerprint:
		t.fatalf("the fingerprint changed from %v to %v", before.Fingerprint, after.Fingerprint)
	case after.Owner != before.Owner:
		t.fatalf("the owner changed from %q to %q", before.Owner, after.Owner)
	case after.Fence != before.Fence:
		t.fatalf("the fence changed from %d to %d", before.Fence, after.Fence)
	case !after.LeaseUntil.Equal(before.LeaseUntil):
		t.fatalf("the lease's end changed from %v to %v", before.LeaseUntil, after.LeaseUntil)
	case !after.CreatedAt.Equal(before.CreatedAt):
		t.fatalf("the creation time changed from %v to %v", before.CreatedAt, after.CreatedAt)
	case !after.ExpiresAt.Equal(before.ExpiresAt):
		t.fatalf("the expiry changed from %v to %v", before.ExpiresAt, after.ExpiresAt)
	}
}

// span checks the distance between two instants that the store took within one call. It may differ from want by the
// duration of the call, because a store may read ReadAt after it has written the rest.
func (t *trial) span(got, want, call time.Duration, what string) {
	t.Helper()
	if (got - want).Abs() > call+precision {
		t.fatalf("%s lie %v apart, want %v", what, got, want)
	}
}

// until polls until the condition holds.
func (t *trial) until(what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for start := time.Now(); !holds(); <-tick.C {
		if time.Since(start) > patience {
			t.fatalf("not within %v: %s", patience, what)
		}
	}
}

// aged waits until the record, which must exist, is older than d by the store's clock.
func (t *trial) aged(st store.Store, id store.ID, d time.Duration) {
	t.Helper()
	t.until(fmt.Sprintf("the record of %v is older than %v", id, d), func() bool {
		return t.find(st, id).Age() > d
	})
}

// pass waits until d has passed by the store's clock, which the record shows.
func (t *trial) pass(st store.Store, id store.ID, d time.Duration) {
	t.Helper()
	t.aged(st, id, t.find(st, id).Age()+d)
}

// leaseEnds waits until the record, which must exist, has no live lease.
func (t *trial) leaseEnds(st store.Store, id store.ID) {
	t.Helper()
	t.until(fmt.Sprintf("the lease of %v ends", id), func() bool { return t.find(st, id).LeaseLeft() == 0 })
}

// expires waits until the record is absent.
func (t *trial) expires(st store.Store, id store.ID) {
	t.Helper()
	t.until(fmt.Sprintf("the record of %v expires", id), func() bool {
		_, err := st.Find(t.Context(), id)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			t.fatalf("Find of %v: %v", id, err)
		}
		return err != nil
	})
}

const racers = 64

// race calls f from 64 goroutines that start together, and waits for all of them. f must not end the test.
func race(f func(i int)) {
	var (
		wg    sync.WaitGroup
		start = make(chan struct{})
	)
	for i := range racers {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}
