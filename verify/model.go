package verify

import (
	"errors"
	"fmt"
	"time"

	"github.com/redo-go/redo/store"
)

// A state is all that the contract knows of one ID. Two equal states are the same state.
type state struct {
	last   uint64 // the greatest fence known to have been given out for the ID; the next one is greater
	exists bool   // the fields below are the record's, and zero when there is none

	status  store.State
	print   store.Fingerprint
	owner   string // of the claim that owns the pending record
	fence   uint64 // zero: its response was lost, and no record has shown it since
	meta    text
	result  text
	lease   instant
	created instant
	expires instant
}

// A text holds bytes in a form that can be compared. It distinguishes nil from empty.
type text struct {
	set   bool
	bytes string
}

func textOf(b []byte) text { return text{b != nil, string(b)} }

// A model decides whether the contract allows a result. It has no state.
type model struct{ timescale }

// step returns the state after a call on the state's ID that returned out, or an error if the contract does not
// allow that result. The result must have been admitted: step does not judge the kind of its error.
func (m model) step(s state, in input, out output) (state, error) {
	s = s.asOf(in.at)
	var err error
	switch effectOf(in, out.err) {
	case none:
	case uncertain:
		// It is taken as done. An operation that was never done, or is still to be done, comes last in the order.
		s = m.undergo(s, in)
	default:
		s, err = m.answer(s, in, out)
	}
	if err != nil {
		return s, fmt.Errorf("%v: %w", in.call, err)
	}
	return s, nil
}

// asOf is the state when nothing but time has passed: an expired record is absent.
func (s state) asOf(now time.Duration) state {
	if s.exists && s.expires.set && s.expires.at <= now {
		return s.absent()
	}
	return s
}

// absent is the state when the record is gone. Its fence is not forgotten.
func (s state) absent() state { return state{last: s.last} }

// undergo returns the state after a call that took effect as far as it could, and whose result is not known.
func (m model) undergo(s state, in input) state {
	switch {
	case in.call == reserve && s.meets(in.claim, in.at).Owned():
		return s.granted(in.claim, in.at, 0)
	case in.call == once && s.meets(in.claim, in.at).Owned():
		return s.settled(in)
	case in.call != reserve && in.call != once && in.call.writes() && s.fits(in):
		return s.moved(in)
	}
	return s
}

// answer compares a result with the one that the state gives.
func (m model) answer(s state, in input, out output) (state, error) {
	switch in.call {
	case reserve:
		return m.answerReserve(s, in, out.grant)
	case find, list:
		there := s.exists && (in.call == find || s.status == store.StatePending)
		shown := out.listed || in.call == find && out.err == nil
		switch {
		case there != shown:
			return s, fmt.Errorf("shown is %t, and a record there is %t", shown, there)
		case !shown:
			return s, nil
		}
		return m.shown(s, in, out.record)
	case once:
		return s.answerOnce(in, out)
	case restart:
		s.lease = instant{}
		return s, nil
	}
	done := out.err == nil
	if s.exists && s.fence == 0 && in.fence > s.last {
		// It may be the fence of a lost response.
		if !done {
			return s, nil
		}
		s.fence, s.last = in.fence, in.fence
	}
	switch fits := s.fits(in); {
	case fits != done:
		return s, fmt.Errorf("done is %t, and the lease being good is %t", done, fits)
	case !done:
		return s, nil
	}
	return s.moved(in), nil
}

func (m model) answerReserve(s state, in input, g store.Grant) (state, error) {
	want := s.meets(in.claim, in.at)
	if g.Verdict != want {
		return s, fmt.Errorf("verdict %q, want %q", g.Verdict, want)
	}
	if !want.Owned() {
		if g.Lease != (store.Lease{}) {
			return s, fmt.Errorf("%q with the lease %+v", g.Verdict, g.Lease)
		}
		return m.shown(s, in, g.Record)
	}
	switch {
	case g.Lease.ID != in.id:
		return s, fmt.Errorf("the lease is on %v", g.Lease.ID)
	case g.Lease.Fence <= s.last:
		return s, fmt.Errorf("the fence is %d, and was %d", g.Lease.Fence, s.last)
	}
	return m.shown(s.granted(in.claim, in.at, g.Lease.Fence), in, g.Record)
}

// answerOnce compares the result of Once. A Once that was not run, because another call held the ID, has no
// result.
func (s state) answerOnce(in input, out output) (state, error) {
	if !out.again {
		if v := s.meets(in.claim, in.at); !v.Owned() {
			return s, fmt.Errorf("run although %v", v)
		}
		return s.settled(in), nil
	}
	want := store.Complete
	if out.kept.Failed {
		want = store.Failed
	}
	switch v := s.meets(in.claim, in.at); {
	case v != want:
		return s, fmt.Errorf("%v again, want %v", want, v)
	case textOf(out.kept.Result) != s.result:
		return s, fmt.Errorf("the result is %s again, want %s", quote(out.kept.Result), s.result)
	}
	return s, nil
}

// settled returns the state after a Once that was run. No caller learns its fence.
func (s state) settled(in input) state {
	claim := in.claim
	claim.Lease, claim.Owner, claim.Meta = 0, "", nil
	s = s.granted(claim, in.at, 0)
	return s.moved(input{call: complete, at: in.at, outcome: in.outcome})
}

// meets returns the verdict on a claim. The state is not expired, see asOf.
func (s state) meets(c store.Claim, now time.Duration) store.Verdict {
	rec := store.Record{State: s.status, Fingerprint: s.print}
	if s.lease.set {
		rec.LeaseUntil = time.Unix(0, 0).Add(s.lease.at)
	}
	return store.Judge(rec, c, time.Unix(0, 0).Add(now))
}

// granted is the state after a claim that owns the ID, under that fence.
func (s state) granted(c store.Claim, now time.Duration, fence uint64) state {
	if !s.exists {
		s = state{
			last:    s.last,
			exists:  true,
			status:  store.StatePending,
			print:   c.Fingerprint,
			meta:    textOf(c.Meta),
			created: after(now, 0),
		}
	}
	s.fence, s.last, s.owner = fence, max(s.last, fence), c.Owner
	s.lease = instant{}
	if c.Lease > 0 {
		s.lease = after(now, c.Lease)
	}
	s.expires = instant{}
	if c.Retention != store.Forever {
		s.expires = after(now, max(c.Retention, c.Lease))
	}
	return s
}

// fits reports whether the lease of a call is good for it.
func (s state) fits(in input) bool {
	settled := s.status != store.StatePending
	return s.exists && s.fence != 0 && s.fence == in.fence && settled == (in.call == forget)
}

// moved is the state after a call whose lease was good.
func (s state) moved(in input) state {
	switch in.call {
	case release, forget:
		return s.absent()
	case extend:
		s.lease = instant{}
		if in.length > 0 {
			s.lease = after(in.at, in.length)
		}
		if in.meta != nil {
			s.meta = textOf(in.meta)
		}
		if s.expires.set && s.expires.at <= s.lease.at {
			s.expires = s.lease
		}
	case complete:
		s.status = store.StateComplete
		if in.outcome.Failed {
			s.status = store.StateFailed
		}
		s.result, s.owner = textOf(in.outcome.Result), ""
		s.lease = instant{}
		switch r := in.outcome.Retention; r {
		case 0:
		case store.Forever:
			s.expires = instant{}
		default:
			s.expires = after(in.at, r)
		}
	}
	return s
}

// shown compares a record with the state, and returns the state with the facts that the record shows.
func (m model) shown(s state, in input, r store.Record) (state, error) {
	if s.fence == 0 && r.Fence > s.last {
		s.fence, s.last = r.Fence, r.Fence
	}
	switch {
	case r.ID != in.id:
		return s, fmt.Errorf("shown the record of %v", r.ID)
	case r.State != s.status:
		return s, fmt.Errorf("the record is %v, want %v", r.State, s.status)
	case r.Fence != s.fence:
		return s, fmt.Errorf("the record is under fence %d, want %d", r.Fence, s.fence)
	case r.Fingerprint != s.print:
		return s, fmt.Errorf("the fingerprint is %x, want %x", r.Fingerprint[:2], s.print[:2])
	case r.Owner != s.owner:
		return s, fmt.Errorf("the owner is %q, want %q", r.Owner, s.owner)
	case textOf(r.Meta) != s.meta:
		return s, fmt.Errorf("the meta is %s, want %s", quote(r.Meta), s.meta)
	case textOf(r.Result) != s.result:
		return s, fmt.Errorf("the result is %s, want %s", quote(r.Result), s.result)
	}
	if m.exact() && !r.ReadAt.Equal(m.epoch.Add(in.at)) {
		return s, fmt.Errorf("read at %v, want %v", r.ReadAt.Sub(m.epoch), in.at)
	}
	var errs [3]error
	s.lease, errs[0] = m.sees(s.lease, r.LeaseUntil, r.ReadAt, in.at)
	s.created, errs[1] = m.sees(s.created, r.CreatedAt, r.ReadAt, in.at)
	s.expires, errs[2] = m.sees(s.expires, r.ExpiresAt, r.ReadAt, in.at)
	for i, what := range []string{"the lease's end", "the creation", "the expiry"} {
		if errs[i] != nil {
			errs[i] = fmt.Errorf("%s: %w", what, errs[i])
		}
	}
	return s, errors.Join(errs[:]...)
}

func (t text) String() string {
	if !t.set {
		return "nil"
	}
	return quote([]byte(t.bytes))
}

func (s state) String() string {
	if !s.exists {
		return fmt.Sprintf("absent, last fence %d", s.last)
	}
	return fmt.Sprintf("%v under %d, print %x, meta %v, result %v, lease %v, created %v, expires %v",
		s.status, s.fence, s.print[:2], s.meta, s.result, s.lease, s.created, s.expires)
}
