package verify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/redo-go/redo/store"
)

// For calls one after the other, a store returns exactly the results of the model, for all arguments.

// A rig describes the store under a machine.
type rig struct {
	// open returns the store and the timescale for comparing its instants. Both end with the test.
	open func(t *rapid.T) (store.Store, timescale)
	// selfExpiring is true if the engine deletes expired records on its own. Purge may then find nothing, or the
	// rest of a record that has a successor.
	selfExpiring bool
}

// A machine is a store with the model's states of its records.
type machine struct {
	rig
	model
	st     store.Store
	scope  string
	states map[store.ID]state
	// gone counts, for each ID, records that had expired when they were last looked at. A store may have deleted them
	// then, or else Purge finds them.
	gone map[store.ID]int
	// freed counts the expired records that calls of Reserve may have deleted since the last purge, two each.
	freed int
}

var sequences int

// check runs random sequences of calls.
func (r rig) check(t rapid.TB) {
	rapid.Check(t, func(t *rapid.T) {
		st, scale := r.open(t)
		sequences++
		m := &machine{
			rig: r, model: model{scale}, st: st, scope: fmt.Sprint("sequence ", sequences),
			states: map[store.ID]state{}, gone: map[store.ID]int{},
		}
		actions := map[string]func(*rapid.T){
			"reserve":  m.reserve,
			"again":    m.reserve, // twice as often as the others, since they need its records
			"extend":   m.extend,
			"complete": m.complete,
			"release":  m.release,
			"forget":   m.forget,
			"find":     m.find,
			"list":     m.list,
			"purge":    m.purge,
			"misuse":   m.misuse,
			"too late": m.tooLate,
		}
		if scale.exact() {
			actions["wait"] = m.wait
		} else {
			actions["run out"] = m.runOut
		}
		t.Repeat(actions)
	})
}

// do makes a call and compares its result with the model's.
func (m *machine) do(t *rapid.T, in input) output {
	return m.doUnder(t, t.Context(), in)
}

func (m *machine) doUnder(t *rapid.T, ctx context.Context, in input) output {
	t.Helper()
	l := licence{ended: ctx.Err() != nil, ending: ctx.Err()}
	in.at = m.now()
	out := perform(ctx, m.st, in)
	t.Logf("%v → %s", in, out.describe(in.call))
	if err := l.admit(in, out); err != nil {
		t.Fatal(err)
	}
	if in.call != purge {
		m.note(t, in, out)
	}
	return out
}

// note updates the model with a call's result.
func (m *machine) note(t *rapid.T, in input, out output) {
	t.Helper()
	before := m.states[in.id]
	if before.exists && !before.asOf(in.at).exists {
		m.gone[in.id]++
	}
	next, err := m.step(before, in, out)
	if err != nil {
		t.Fatalf("%v\nbefore it: %v", err, before)
	}
	if out.grant.Verdict == store.Acquired {
		m.freed += 2
		if !m.selfExpiring {
			delete(m.gone, in.id) // the new record replaces the expired one
		}
	}
	m.states[in.id] = next
}

func (m *machine) reserve(t *rapid.T) { m.do(t, m.anyReserve(t)) }

func (m *machine) anyReserve(t *rapid.T) input {
	return input{call: reserve, id: m.anyID(t), claim: store.Claim{
		Fingerprint: anyPrint.Draw(t, "print"),
		Lease:       rapid.SampledFrom(m.palette().leases).Draw(t, "lease"),
		Retention:   rapid.SampledFrom(m.palette().retentions).Draw(t, "retention"),
		Owner:       rapid.SampledFrom(owners).Draw(t, "owner"),
		Meta:        anyBytes.Draw(t, "meta"),
	}}
}

func (m *machine) extend(t *rapid.T) {
	m.do(t, m.owned(t, input{
		call: extend, length: rapid.SampledFrom(m.palette().extensions).Draw(t, "length"),
		meta: anyBytes.Draw(t, "meta"),
	}))
}

func (m *machine) complete(t *rapid.T) {
	m.do(t, m.owned(t, input{call: complete, outcome: store.Outcome{
		Failed:    rapid.Bool().Draw(t, "failed"),
		Result:    anyBytes.Draw(t, "result"),
		Retention: rapid.SampledFrom(m.palette().settled).Draw(t, "retention"),
		Lazy:      rapid.Bool().Draw(t, "lazy"),
	}}))
}

func (m *machine) release(t *rapid.T) { m.do(t, m.owned(t, input{call: release})) }
func (m *machine) forget(t *rapid.T)  { m.do(t, m.owned(t, input{call: forget})) }
func (m *machine) find(t *rapid.T)    { m.do(t, input{call: find, id: m.anyID(t)}) }

// list looks at all that is pending, in its order.
func (m *machine) list(t *rapid.T) {
	at := m.now()
	records, err := pending(t.Context(), m.st, m.scope)
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	shown := map[store.ID]store.Record{}
	for i, r := range records {
		if _, again := shown[r.ID]; again || r.ID.Scope != m.scope {
			t.Fatalf("the list shows %s, twice or of another scope", brief(r.ID))
		}
		if i > 0 && r.CreatedAt.Before(records[i-1].CreatedAt) {
			t.Fatalf("the list shows %s, created at %v, after a younger one of %v",
				brief(r.ID), r.CreatedAt, records[i-1].CreatedAt)
		}
		shown[r.ID] = r
		if _, known := m.states[r.ID]; !known {
			t.Fatalf("the list shows %s, which was never reserved", brief(r.ID))
		}
	}
	for id := range m.states {
		r, listed := shown[id]
		m.note(t, input{call: list, id: id, at: at}, output{listed: listed, record: r})
	}
}

// purge deletes all that has expired, by some at a time.
func (m *machine) purge(t *rapid.T) {
	limit := rapid.IntRange(1, 3).Draw(t, "limit")
	least, most := 0, 0
	for _, n := range m.gone {
		most += n
	}
	for _, s := range m.states {
		if s.exists && !s.asOf(m.now()).exists {
			least, most = least+1, most+1
		}
	}
	if least -= m.freed; m.selfExpiring {
		least = 0
	}
	sum := 0
	for n := limit; n == limit; sum += n {
		n = m.do(t, input{call: purge, limit: limit}).purged
		if n < 0 || n > limit || sum+n > most {
			t.Fatalf("%d were purged after %d, of at most %d by %d", n, sum, most, limit)
		}
	}
	if sum < least {
		t.Fatalf("%d were purged, of at least %d", sum, least)
	}
	clear(m.gone)
	m.freed = 0
	for id, s := range m.states {
		m.states[id] = s.asOf(m.now())
	}
}

// wait lets time pass.
func (m *machine) wait(t *rapid.T) {
	d := time.Duration(rapid.IntRange(1, 8).Draw(t, "beats")) * passing.beat
	t.Logf("wait %v", d)
	time.Sleep(d)
}

// runOut lets a record expire, or a lease end, on an engine's own clock. It sets a duration of a millisecond, and
// reads the record until that time is over.
func (m *machine) runOut(t *rapid.T) {
	in := m.anyReserve(t)
	lease := rapid.Bool().Draw(t, "lease")
	in.claim.Lease, in.claim.Retention = 0, time.Millisecond
	if lease {
		in.claim.Lease, in.claim.Retention = time.Millisecond, 24*time.Hour
	}
	s := m.states[in.id]
	if !s.meets(in.claim, in.at).Owned() {
		t.Skip("the ID can't be had")
	}
	g, err := m.st.Reserve(t.Context(), in.claimOn())
	if err != nil || g.Verdict != s.meets(in.claim, in.at) {
		t.Fatalf("%v: verdict %q, error %v", in, g.Verdict, err)
	}
	t.Logf("%v → %s, until that is over", in, show(g.Record))
	for over, begun := false, time.Now(); !over; {
		r, err := m.st.Find(t.Context(), in.id)
		over = errors.Is(err, store.ErrNotFound) || lease && err == nil && r.LeaseLeft() == 0
		if !over && (err != nil || time.Since(begun) > patience) {
			t.Fatalf("it does not end: %s, error %v", show(r), err)
		}
	}
	m.freed += 2
	s = s.granted(in.claim, 0, g.Record.Fence)
	s.lease = instant{}
	if lease {
		s.lease = instant{set: true, seen: g.Record.LeaseUntil.UnixNano()}
	} else {
		s = s.absent()
		m.gone[in.id]++
	}
	m.states[in.id] = s
}

// misuse breaks a rule of the contract: it is refused, and the next look shows that nothing was changed.
func (m *machine) misuse(t *rapid.T) {
	in := misuses[rapid.SampledFrom(slices.Sorted(maps.Keys(misuses))).Draw(t, "misuse")](m, t)
	if in.call != purge && in.id == (store.ID{}) {
		in.id = m.anyID(t)
	}
	m.do(t, in)
}

var tooLong = make([]byte, store.MaxMeta+1)

var misuses = map[string]func(*machine, *rapid.T) input{
	"a negative lease":            badClaim(func(c *store.Claim) { c.Lease = -1 }),
	"an endless lease":            badClaim(func(c *store.Claim) { c.Lease = store.Forever }),
	"no retention":                badClaim(func(c *store.Claim) { c.Retention = 0 }),
	"a negative retention":        badClaim(func(c *store.Claim) { c.Retention = math.MinInt64 }),
	"too long an owner":           badClaim(func(c *store.Claim) { c.Owner = strings.Repeat("o", store.MaxOwner+1) }),
	"too long a meta":             badClaim(func(c *store.Claim) { c.Meta = tooLong }),
	"a negative extension":        badLease(input{call: extend, length: -1}),
	"an endless extension":        badLease(input{call: extend, length: store.Forever}),
	"extend by too long a meta":   badLease(input{call: extend, meta: tooLong}),
	"outcome's negative lifetime": badLease(input{call: complete, outcome: store.Outcome{Retention: -1}}),
	"reserve an invalid ID":       badID(input{call: reserve, claim: store.Claim{Retention: store.Forever}}),
	"extend an invalid ID":        badID(input{call: extend, length: time.Hour}),
	"complete an invalid ID":      badID(input{call: complete}),
	"release an invalid ID":       badID(input{call: release}),
	"forget an invalid ID":        badID(input{call: forget}),
	"find an invalid ID":          badID(input{call: find}),
	"purge by nothing":            func(*machine, *rapid.T) input { return input{call: purge} },
	"purge by less":               func(*machine, *rapid.T) input { return input{call: purge, limit: math.MinInt} },
}

func badClaim(spoil func(*store.Claim)) func(*machine, *rapid.T) input {
	return func(m *machine, t *rapid.T) input {
		in := m.anyReserve(t)
		spoil(&in.claim)
		return in
	}
}

func badLease(in input) func(*machine, *rapid.T) input {
	return func(m *machine, t *rapid.T) input { return m.owned(t, in) }
}

func badID(in input) func(*machine, *rapid.T) input {
	return func(m *machine, t *rapid.T) input {
		in.id = rapid.SampledFrom([]store.ID{
			{Scope: m.scope},
			{Scope: m.scope, Key: strings.Repeat("k", store.MaxKey+1)},
			{Scope: strings.Repeat("s", store.MaxScope+1), Key: "k"},
		}).Draw(t, "id")
		return in
	}
}

// tooLate makes a call whose context has ended.
func (m *machine) tooLate(t *rapid.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var in input
	switch c := rapid.SampledFrom([]call{reserve, extend, complete, release, forget, find, purge}).Draw(t, "call"); c {
	case reserve:
		in = m.anyReserve(t)
	case find:
		in = input{call: c, id: m.anyID(t)}
	case purge:
		in = input{call: c, limit: 1}
	default:
		in = m.owned(t, input{call: c, length: time.Second, outcome: store.Outcome{Lazy: rapid.Bool().Draw(t, "lazy")}})
	}
	m.doUnder(t, ctx, in)
}

// owned gives a call an ID and a fence. Mostly it is the record's fence, else a wrong one of any size.
func (m *machine) owned(t *rapid.T, in input) input {
	in.id = m.anyID(t)
	fence := m.states[in.id].fence
	in.fence = rapid.SampledFrom([]uint64{
		fence, fence, fence, fence, fence, fence, fence, fence, fence, fence, 0, fence - 1, fence + 1, 1,
		math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64,
	}).Draw(t, "fence")
	return in
}

func (in input) claimOn() store.Claim {
	c := in.claim
	c.ID = in.id
	return c
}

func (m *machine) palette() palette {
	if m.exact() {
		return passing
	}
	return standing
}

// anyID is one of few, and mostly the same, so that calls meet.
func (m *machine) anyID(t *rapid.T) store.ID {
	return store.ID{Scope: m.scope, Key: keys[rapid.SampledFrom([]string{
		"k", "k", "k", "k", "K", "bytes", "long", "as long", "not so long",
	}).Draw(t, "key")]}
}

var keys = map[string]string{
	"k": "k", "K": "K", "bytes": "\x00\xff",
	"long":        strings.Repeat("k", store.MaxKey),
	"as long":     strings.Repeat("k", store.MaxKey-1) + "x",
	"not so long": strings.Repeat("k", store.MaxKey-1),
}

var (
	anyPrint = rapid.SampledFrom([]store.Fingerprint{
		store.Raw("POST", "/", "", []byte("first")), store.Raw("POST", "/", "", []byte("first")),
		store.Raw("POST", "/", "", nil), {},
	})
	// anyBytes are none, empty, some, and now and then as many as a meta may have.
	anyBytes = rapid.OneOf(
		rapid.Just[[]byte](nil),
		rapid.Just([]byte{}),
		rapid.SliceOfN(rapid.Byte(), 1, 40),
		rapid.Map(rapid.IntRange(0, 9), func(n int) []byte {
			if n > 0 {
				return []byte{byte(n), 0}
			}
			return make([]byte, store.MaxMeta)
		}),
	)
)

// unbounded hides from rapid that the test has a deadline, which a bubble's clock knows nothing of.
type unbounded struct{ *testing.T }

// sequencesIn makes sequences in virtual time, each with a store of its own.
func sequencesIn(t *testing.T, open func(*testing.T) store.Store) {
	synctest.Test(t, func(t *testing.T) {
		rig{open: func(*rapid.T) (store.Store, timescale) {
			return open(t), virtual(time.Now())
		}}.check(unbounded{t})
	})
}

func TestSequencesInMemory(t *testing.T) { sequencesIn(t, openMemory) }

func TestSequencesInAFile(t *testing.T) { sequencesIn(t, openBolt) }

func TestSequencesInADirectory(t *testing.T) { sequencesIn(t, openPebble) }

func TestSequencesInSQLite(t *testing.T) { rig{open: shared(newOnSQLite(t).open(t))}.check(t) }

func TestSequencesOnRedis(t *testing.T) {
	rig{open: shared(newOnRedis(t).open(t)), selfExpiring: true}.check(t)
}

func TestSequencesOnPostgres(t *testing.T) { rig{open: shared(newOnPostgres(t).open(t))}.check(t) }

func TestSequencesOnMySQL(t *testing.T) { rig{open: shared(newOnMySQL(t).open(t))}.check(t) }

// shared is for a store that takes long to open. Each sequence has its own scope there, and starts with nothing to
// purge.
func shared(st store.Store) func(*rapid.T) (store.Store, timescale) {
	return func(t *rapid.T) (store.Store, timescale) {
		for n := 1000; n == 1000; {
			var err error
			if n, err = st.Purge(t.Context(), 1000); err != nil {
				t.Fatal(err)
			}
		}
		return st, nominal()
	}
}
