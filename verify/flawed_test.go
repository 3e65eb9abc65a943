package verify

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redo-go/redo/store"
)

// A flaw is the one defect of a flawed store. Each was seen in a store that its users trusted.
type flaw string

const (
	noFlaw            flaw = "no flaw"
	checkThenReserve  flaw = "reserve checks, and then acts"
	checkThenComplete flaw = "complete checks, and then acts"
	checkThenExtend   flaw = "extend writes back an old read"
	releaseWithoutCAS flaw = "release ignores the fence"
	completeBlindly   flaw = "complete ignores the fence"
	extendBlindly     flaw = "extend ignores the fence"
	forgetPending     flaw = "forget removes a pending record"
	releaseSettled    flaw = "release removes a settled record"
	settleTwice       flaw = "complete settles a settled record"
	staleRead         flaw = "find returns the record before the last write"
	fenceRestarts     flaw = "the fence restarts after a release"
	fenceStays        flaw = "a take-over keeps the fence"
	sharedFence       flaw = "two owners share a fence"
	mismatchOwns      flaw = "another payload takes the record over"
	metaReplaced      flaw = "a take-over writes its own meta"
	ownerKept         flaw = "a take-over keeps the last owner"
	ownerStays        flaw = "a settled record keeps its owner"
	createdAnew       flaw = "a take-over makes the record young again"
	retentionKept     flaw = "a take-over does not count retention anew"
	emptyIsNil        flaw = "an empty result comes back as none"
	outlives          flaw = "an expired record is still there"
	diesEarly         flaw = "a record expires before its lease ends"
	leaseForgotten    flaw = "a lease does not exclude"
	lateLoses         flaw = "complete is lost after the lease's end"
	heedless          flaw = "an ended context is not looked at"
	credulous         flaw = "an invalid argument is taken"
	bufferKept        flaw = "the caller's buffer is kept"
	lyingError        flaw = "a write is made, and its error reports that nothing was changed"
	strangeError      flaw = "an error is of no kind"
	purgesLive        flaw = "purge deletes a record that has not expired"
	purgeCountsWrong  flaw = "purge counts records that it did not delete"
	listsSettled      flaw = "the list shows settled records"
	listForgets       flaw = "the list leaves one out"
)

// A flawed store moves the model's own states, and gets one thing wrong. Its clock is time.Now.
type flawed struct {
	flaw  flaw
	epoch time.Time

	mu       sync.Mutex
	records  map[store.ID]*entry
	lastEver uint64
	calls    int
}

type entry struct {
	state
	before state  // the state before the last write
	kept   []byte // the caller's own
}

func newFlawed(f flaw) *flawed {
	return &flawed{flaw: f, epoch: time.Now(), records: map[store.ID]*entry{}}
}

func (f *flawed) is(x flaw) bool { return f.flaw == x }

// now and then is whether the flaw shows this time.
func (f *flawed) nowAndThen() bool {
	f.calls++
	return f.calls%3 == 0
}

// begin is the first step of each call.
func (f *flawed) begin(ctx context.Context, in *input) error {
	if err := ctx.Err(); err != nil && !f.is(heedless) {
		return err
	}
	in.at = time.Since(f.epoch)
	if in.validity() == invalid && !f.is(credulous) {
		return store.ErrInvalid
	}
	return nil
}

// at returns the ID's entry as of now. The mutex is held.
func (f *flawed) at(in input) *entry {
	e := f.records[in.id]
	if e == nil {
		e = &entry{}
		f.records[in.id] = e
	}
	if !f.is(outlives) {
		e.state = e.asOf(in.at)
	}
	return e
}

func (e *entry) write(s state) { e.before, e.state = e.state, s }

// yieldIf lets others in between a check and its act.
func (f *flawed) yieldIf(x flaw) {
	if f.is(x) {
		f.mu.Unlock()
		for range 8 {
			runtime.Gosched()
		}
		f.mu.Lock()
	}
}

func (f *flawed) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	in := input{call: reserve, id: c.ID, claim: c}
	if err := f.begin(ctx, &in); err != nil {
		return store.Grant{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.at(in)
	s := e.state
	v := s.meets(c, in.at)
	switch {
	case f.is(mismatchOwns) && v == store.Mismatch && s.status == store.StatePending:
		v = store.TakenOver
	case f.is(leaseForgotten) && v == store.InFlight:
		v = store.TakenOver
	}
	f.yieldIf(checkThenReserve)
	if !v.Owned() {
		return store.Grant{Verdict: v, Record: f.export(e, s, in)}, nil
	}
	next := s.granted(c, in.at, f.fence(s))
	if v == store.TakenOver {
		switch f.flaw {
		case metaReplaced:
			next.meta = textOf(c.Meta)
		case ownerKept:
			next.owner = s.owner
		case createdAnew:
			next.created = after(in.at, 0)
		case retentionKept:
			next.expires = s.expires
		case fenceStays:
			next.fence = s.fence
		}
	}
	if f.is(diesEarly) && next.expires.set {
		next.expires = after(in.at, c.Retention)
	}
	e.kept = nil
	if f.is(bufferKept) && v == store.Acquired {
		e.kept = c.Meta
	}
	e.write(next)
	if f.is(lyingError) && f.nowAndThen() {
		return store.Grant{}, fmt.Errorf("flawed: %w", store.ErrUnavailable)
	}
	r := f.export(e, next, in)
	return store.Grant{Verdict: v, Lease: r.Lease(), Record: r}, nil
}

func (f *flawed) fence(s state) uint64 {
	switch {
	case f.is(fenceRestarts) && !s.exists:
		return 1
	case f.is(fenceRestarts):
		return s.fence + 1
	case f.is(sharedFence) && f.nowAndThen():
		return max(1, f.lastEver)
	}
	f.lastEver++
	return f.lastEver
}

// change makes a call that a lease must be good for.
func (f *flawed) change(ctx context.Context, in input) error {
	if err := f.begin(ctx, &in); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.at(in)
	s := e.state
	settled := s.exists && s.status != store.StatePending
	fits := s.fits(in)
	switch {
	case f.is(releaseWithoutCAS) && in.call == release, f.is(completeBlindly) && in.call == complete,
		f.is(extendBlindly) && in.call == extend:
		fits = s.exists && !settled
	case f.is(releaseSettled) && in.call == release, f.is(forgetPending) && in.call == forget,
		f.is(settleTwice) && in.call == complete:
		fits = s.exists && s.fence == in.fence
	case f.is(lateLoses) && in.call == complete && s.lease.at <= in.at:
		fits = false
	}
	if !fits {
		if f.is(strangeError) && f.nowAndThen() {
			return fmt.Errorf("flawed: something is wrong")
		}
		return store.ErrLost
	}
	switch in.call {
	case complete:
		f.yieldIf(checkThenComplete)
	case extend:
		f.yieldIf(checkThenExtend)
	}
	next := s.moved(in)
	if in.call == complete && f.is(ownerStays) {
		next.owner = s.owner
	}
	if in.call == extend && f.is(diesEarly) {
		next.expires = s.expires
	}
	if in.call == extend && in.meta != nil {
		e.kept = nil
	}
	e.write(next)
	if f.is(lyingError) && f.nowAndThen() {
		return fmt.Errorf("flawed: %w", store.ErrUnavailable)
	}
	return nil
}

func (f *flawed) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	return f.change(ctx, input{call: extend, id: l.ID, fence: l.Fence, length: d, meta: meta})
}

func (f *flawed) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	return f.change(ctx, input{call: complete, id: l.ID, fence: l.Fence, outcome: o})
}

func (f *flawed) Release(ctx context.Context, l store.Lease) error {
	return f.change(ctx, input{call: release, id: l.ID, fence: l.Fence})
}

func (f *flawed) Forget(ctx context.Context, l store.Lease) error {
	return f.change(ctx, input{call: forget, id: l.ID, fence: l.Fence})
}

func (f *flawed) Find(ctx context.Context, id store.ID) (store.Record, error) {
	in := input{call: find, id: id}
	if err := f.begin(ctx, &in); err != nil {
		return store.Record{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.at(in)
	s := e.state
	if f.is(staleRead) && f.nowAndThen() {
		s = e.before
	}
	if !s.exists {
		return store.Record{}, store.ErrNotFound
	}
	return f.export(e, s, in), nil
}

func (f *flawed) Purge(ctx context.Context, limit int) (int, error) {
	in := input{call: purge, limit: limit}
	if err := f.begin(ctx, &in); err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	purged := 0
	for _, e := range f.records {
		due := e.exists && e.expires.set && e.expires.at <= in.at
		if f.is(purgesLive) && e.exists && e.status != store.StatePending {
			due = true
		}
		if due && purged < limit {
			e.write(e.absent())
			purged++
		}
	}
	if f.is(purgeCountsWrong) {
		purged++
	}
	return purged, nil
}

func (f *flawed) Pending(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		in := input{call: list}
		if err := f.begin(ctx, &in); err != nil {
			yield(store.Record{}, err)
			return
		}
		for _, r := range f.listed(in, scope) {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (f *flawed) listed(in input, scope string) (records []store.Record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range f.records {
		in.id = id
		e := f.at(in)
		shown := e.exists && (e.status == store.StatePending || f.is(listsSettled))
		if shown && id.Scope == scope && !(f.is(listForgets) && f.nowAndThen()) {
			records = append(records, f.export(e, e.state, in))
		}
	}
	slices.SortFunc(records, func(a, b store.Record) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return records
}

// export is the record of a state. The mutex is held.
func (f *flawed) export(e *entry, s state, in input) store.Record {
	instantOf := func(i instant) time.Time {
		if !i.set {
			return time.Time{}
		}
		return f.epoch.Add(i.at)
	}
	bytesOf := func(t text) []byte {
		if !t.set || f.is(emptyIsNil) && t.bytes == "" {
			return nil
		}
		return []byte(t.bytes)
	}
	r := store.Record{
		ID: in.id, Fingerprint: s.print, State: s.status, Result: bytesOf(s.result), Meta: bytesOf(s.meta),
		Owner: s.owner, Fence: s.fence,
		LeaseUntil: instantOf(s.lease), CreatedAt: instantOf(s.created), ExpiresAt: instantOf(s.expires),
		ReadAt: f.epoch.Add(in.at),
	}
	if e.kept != nil {
		r.Meta = append([]byte{}, e.kept...)
	}
	return r
}
