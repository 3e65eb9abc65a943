package verify

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redo-go/redo/store"
)

// A palette lists the durations that a history may use.
type palette struct {
	leases, extensions, retentions []time.Duration
	// settled is the retention of an outcome; zero keeps the claim's.
	settled []time.Duration
	// beat is the unit of the pauses between two calls of a worker. Zero means no pauses. Workers that wait for
	// the same instant continue together. On a clock where each call had a different instant, no calls would
	// overlap.
	beat time.Duration
}

// passing is for a clock that the calls see: everything ends within the history, and often at the very instant of a
// call.
var passing = palette{
	leases:     []time.Duration{0, time.Second, 3 * time.Second},
	extensions: []time.Duration{0, time.Second, 4 * time.Second, 15 * time.Second},
	retentions: []time.Duration{time.Second, 5 * time.Second, 12 * time.Second, store.Forever},
	settled:    []time.Duration{0, time.Second, 4 * time.Second, store.Forever},
	beat:       500 * time.Millisecond,
}

// standing is for a clock that must not matter: nothing ends that is not ended. No two sums are less than an hour
// apart.
var standing = palette{
	leases:     []time.Duration{0, time.Hour, 100 * time.Hour},
	extensions: []time.Duration{0, 0, 2 * time.Hour, 200 * time.Hour},
	retentions: []time.Duration{24 * time.Hour, 48 * time.Hour, store.Forever},
	settled:    []time.Duration{0, 72 * time.Hour, store.Forever},
}

// A generator makes the calls of one worker.
type generator struct {
	*rand.Rand
	palette
	weights
	ids   []store.ID
	board *board
}

// A board holds the fences that the workers of a history have seen, so that they get into each other's way.
type board struct {
	mu   sync.Mutex
	seen map[store.ID][]uint64 // in the order in which they were shown
}

func (b *board) note(id store.ID, fence uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if fence != 0 && !slices.Contains(b.seen[id], fence) {
		b.seen[id] = append(b.seen[id], fence)
	}
}

func (b *board) fences(id store.ID) []uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.seen[id])
}

// weights say how often each call is made, in a hundred.
type weights []struct {
	call   call
	weight int
}

// inTwoSteps is for reserving first and settling later. Calls that end a record are about as frequent as calls
// that make one.
var inTwoSteps = weights{
	{reserve, 34}, {extend, 14}, {complete, 14}, {release, 12}, {forget, 12}, {find, 10}, {list, 3}, {purge, 1},
}

// inOneStep has callers of Once among the others.
var inOneStep = weights{
	{once, 30}, {reserve, 18}, {extend, 8}, {complete, 8}, {release, 8}, {forget, 14}, {find, 10}, {list, 3},
	{purge, 1},
}

func (g *generator) next() input {
	in := input{id: pick(g.Rand, g.ids)}
	n := g.IntN(100)
	for _, w := range g.weights {
		if in.call = w.call; n < w.weight {
			break
		}
		n -= w.weight
	}
	switch in.call {
	case once:
		in.claim = store.Claim{Fingerprint: g.print(), Retention: pick(g.Rand, g.retentions)}
		in.outcome = store.Outcome{Failed: g.IntN(4) == 0, Result: g.bytes(), Retention: pick(g.Rand, g.settled)}
		in.effect, in.fails = fmt.Sprintf("%s/%016x", in.id.Key, g.Uint64()), g.IntN(6) == 0
	case reserve:
		in.claim = store.Claim{
			Fingerprint: g.print(),
			Lease:       pick(g.Rand, g.leases),
			Retention:   pick(g.Rand, g.retentions),
			Owner:       pick(g.Rand, owners),
			Meta:        g.bytes(),
		}
	case extend:
		in.length, in.meta = pick(g.Rand, g.extensions), g.bytes()
	case complete:
		in.outcome = store.Outcome{
			Failed:    g.IntN(3) == 0,
			Result:    g.bytes(),
			Retention: pick(g.Rand, g.settled),
			Lazy:      g.IntN(3) == 0,
		}
	case purge:
		in.limit = 1 + g.IntN(4)
	}
	in.fence = g.fence(in.id)
	return in
}

// print is mostly the one payload, so that most claims can own the record.
func (g *generator) print() store.Fingerprint {
	switch g.IntN(12) {
	case 0:
		return store.Fingerprint{}
	case 1:
		return store.Raw("POST", "/refunds", "", []byte("another"))
	}
	return store.Raw("POST", "/refunds", "", []byte("first"))
}

// pause comes before a call. Most calls follow the last one immediately.
func (g *generator) pause() {
	if g.beat > 0 && g.IntN(3) == 0 {
		time.Sleep(g.beat * time.Duration(1+g.IntN(4)))
	}
}

// bytes returns random bytes, so that a record shows which call wrote it. Some are nil or empty.
func (g *generator) bytes() []byte {
	switch g.IntN(5) {
	case 0:
		return nil
	case 1:
		return []byte{}
	}
	b := make([]byte, 6)
	for i := range b {
		b[i] = byte('a' + g.IntN(26))
	}
	return b
}

// fence is mostly the last fence that was seen for the ID, or one before it. Now and then it is one that the store
// never gives out. It is never a future fence: a worker whose response was lost might own that one.
func (g *generator) fence(id store.ID) uint64 {
	seen := g.board.fences(id)
	switch n := g.IntN(20); {
	case n == 0:
		return math.MaxUint64
	case n == 1 || len(seen) == 0:
		return 0
	case n < 6:
		return seen[max(0, len(seen)-2-g.IntN(2))]
	}
	return seen[len(seen)-1]
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// owners are few, so that a claim meets its own owner's record too.
var owners = []string{"", "a", "b\x00\xff"}
