package verify

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/redo-go/redo/store"
)

// A call names a method of a store.
type call uint8

const (
	reserve call = iota + 1
	extend
	complete
	release
	forget
	find
	list  // the list of pending records, as far as it concerns one ID
	purge // concerns no ID, and never shows
	once  // store.Once: the record and an effect, in one transaction
	// restart means that the backend was closed and opened again, by the only process that may open it. Leases are
	// void.
	restart
)

var callNames = [...]string{
	"no call", "reserve", "extend", "complete", "release", "forget", "find", "list", "purge", "once", "restart",
}

func (c call) String() string { return callNames[c] }

// writes reports whether the call may change something.
func (c call) writes() bool { return c != find && c != list && c != restart }

// An input is one call with its arguments.
type input struct {
	call    call
	at      time.Duration // when it is made
	id      store.ID
	claim   store.Claim   // reserve, once; its ID is the input's
	fence   uint64        // extend, complete, release, forget
	length  time.Duration // extend
	meta    []byte        // extend
	outcome store.Outcome // complete, once
	effect  string        // once: the text that it writes in the transaction
	fails   bool          // once: having written, it returns an error
	limit   int           // purge
}

func (in input) lease() store.Lease { return store.Lease{ID: in.id, Fence: in.fence} }

// An output is the result of a call.
type output struct {
	err    error
	grant  store.Grant   // reserve
	record store.Record  // find, list
	listed bool          // list: the ID was among the pending ones
	purged int           // purge
	again  bool          // once
	kept   store.Outcome // once
}

// Whether an input breaks a rule of the contract.
type validity uint8

const (
	valid validity = iota
	invalid
	// unsaid: an ID outside the limits, in a lease. No record can stand under it, so that "lost" is as true as
	// "invalid", and the contract does not choose.
	unsaid
)

func (in input) validity() validity {
	claim := in.claim
	claim.ID = in.id
	if in.call == extend {
		claim = store.Claim{ID: in.id, Lease: in.length, Retention: store.Forever, Meta: in.meta}
	}
	badID := in.id.Validate() != nil
	switch in.call {
	case reserve, extend, once:
		if claim.Validate() == nil {
			return valid
		}
		if claim.ID.Key, claim.ID.Scope = "k", ""; in.call == extend && badID && claim.Validate() == nil {
			return unsaid
		}
		return invalid
	case complete:
		if in.outcome.Validate() != nil {
			return invalid
		}
	case find:
		if badID {
			return invalid
		}
	case purge:
		if in.limit < 1 {
			return invalid
		}
	}
	if badID && in.call.writes() && in.call != purge {
		return unsaid
	}
	return valid
}

// perform makes the call. Afterwards it overwrites the bytes that it gave to the store and those that it got. A
// store that keeps either then shows wrong bytes.
func perform(ctx context.Context, st store.Store, in input) (out output) {
	meta, result := bytes.Clone(in.meta), bytes.Clone(in.outcome.Result)
	claim, outcome := in.claim, in.outcome
	claim.ID, claim.Meta, outcome.Result = in.id, bytes.Clone(in.claim.Meta), result
	defer func() { spoil(meta, result, claim.Meta) }()
	switch in.call {
	case reserve:
		out.grant, out.err = st.Reserve(ctx, claim)
		out.grant.Record = take(out.grant.Record)
	case extend:
		out.err = st.Extend(ctx, in.lease(), in.length, meta)
	case complete:
		out.err = st.Complete(ctx, in.lease(), outcome)
	case release:
		out.err = st.Release(ctx, in.lease())
	case forget:
		out.err = st.(store.Forgetter).Forget(ctx, in.lease())
	case find:
		out.record, out.err = st.Find(ctx, in.id)
		out.record = take(out.record)
	case purge:
		out.purged, out.err = st.Purge(ctx, in.limit)
	case once:
		in.outcome = outcome
		out.kept, out.again, out.err = st.(transactor).once(ctx, claim, in)
		kept := out.kept.Result
		out.kept.Result = bytes.Clone(kept)
		spoil(kept)
	default:
		out.err = fmt.Errorf("verify: %v is no call on a store", in.call)
	}
	return out
}

// pending returns the pending records of a scope.
func pending(ctx context.Context, st store.Store, scope string) (records []store.Record, err error) {
	for r, err := range st.(store.Lister).Pending(ctx, scope) {
		if err != nil {
			return nil, err
		}
		records = append(records, take(r))
	}
	return records, nil
}

// take copies a record and writes over its bytes.
func take(r store.Record) store.Record {
	meta, result := r.Meta, r.Result
	r.Meta, r.Result = bytes.Clone(meta), bytes.Clone(result)
	spoil(meta, result)
	return r
}

func spoil(all ...[]byte) {
	for _, b := range all {
		for i := range b {
			b[i] ^= 0xA5
		}
	}
}

func (in input) String() string {
	at := ""
	if in.at != 0 {
		at = fmt.Sprintf("at %v: ", in.at)
	}
	switch in.call {
	case reserve:
		c := in.claim
		return fmt.Sprintf("%sreserve %s print %x lease %v retention %v meta %s",
			at, brief(in.id), c.Fingerprint[:2], c.Lease, retention(c.Retention), quote(c.Meta))
	case extend:
		return fmt.Sprintf("%sextend %s under %d by %v meta %s", at, brief(in.id), in.fence, in.length, quote(in.meta))
	case complete:
		o := in.outcome
		return fmt.Sprintf("%scomplete %s under %d failed %t lazy %t retention %v result %s",
			at, brief(in.id), in.fence, o.Failed, o.Lazy, retention(o.Retention), quote(o.Result))
	case once:
		o := in.outcome
		return fmt.Sprintf("%sonce %s print %x effect %s fails %t failed %t result %s",
			at, brief(in.id), in.claim.Fingerprint[:2], in.effect, in.fails, o.Failed, quote(o.Result))
	case purge:
		return fmt.Sprintf("%spurge %d", at, in.limit)
	case find, list, restart:
		return fmt.Sprintf("%s%v %s", at, in.call, brief(in.id))
	}
	return fmt.Sprintf("%s%v %s under %d", at, in.call, brief(in.id), in.fence)
}

func (out output) describe(c call) string {
	switch {
	case out.err != nil:
		return "error " + out.err.Error()
	case c == reserve:
		return fmt.Sprintf("%v, %s", out.grant.Verdict, show(out.grant.Record))
	case c == list && !out.listed:
		return "not listed"
	case c == find, c == list:
		return show(out.record)
	case c == once:
		return fmt.Sprintf("again %t, failed %t, result %s", out.again, out.kept.Failed, quote(out.kept.Result))
	case c == purge:
		return fmt.Sprint(out.purged)
	}
	return "ok"
}

func show(r store.Record) string {
	return fmt.Sprintf("%v under %d, print %x, meta %s, result %s, lease %v, created %v, expires %v", r.State, r.Fence,
		r.Fingerprint[:2], quote(r.Meta), quote(r.Result), r.LeaseLeft(), r.CreatedAt.Sub(r.ReadAt), r.ExpiresAt)
}

func retention(d time.Duration) string {
	if d == store.Forever {
		return "forever"
	}
	return d.String()
}

// brief is the key, of which a history has few: its length and its end.
func brief(id store.ID) string {
	return fmt.Sprintf("%q/%d", id.Key[max(0, len(id.Key)-8):], len(id.Key))
}

func quote(b []byte) string {
	if b == nil {
		return "nil"
	}
	return fmt.Sprintf("%.16q/%d", b, len(b))
}
