package boltoutbox

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store/boltstore"
)

// Random changes leave indexes that follow from the events alone, and claims that a walk over all events would make.
func TestIndexesFollowFromTheEvents(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			st, err := boltstore.Open(filepath.Join(t.TempDir(), "outbox.redo"))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, st.Close()) })
			q, err := New(t.Context(), st)
			require.NoError(t, err)
			require.NoError(t, st.Update(t.Context(), func(tx *boltstore.Tx) error {
				f, err := q.open(tx, 1)
				require.NoError(t, err)
				w := &walk{T: t, file: f, rand: rand.New(rand.NewPCG(seed, 1))}
				for range 300 {
					f.now += w.rand.Int64N(4)
					w.step()
					require.NoError(t, f.tidy())
					w.check()
				}
				require.Positive(t, w.claims, "events were claimed")
				return nil
			}))
		})
	}
}

// A walk makes random changes.
type walk struct {
	*testing.T
	*file
	rand   *rand.Rand
	leases []outbox.Lease // some are lost
	ids    int
	claims int
}

func (w *walk) destination() string { return fmt.Sprint("d", w.rand.IntN(3)) }

func (w *walk) limits() outbox.Claim {
	c := outbox.Claim{Max: 1 + w.rand.IntN(8), Lease: time.Duration(1 + w.rand.IntN(6)), HoldKeys: w.rand.IntN(2) == 0}
	if w.rand.IntN(2) == 0 {
		c.PerDestination = 1 + w.rand.IntN(3)
		c.Room = map[string]int{w.destination(): w.rand.IntN(3)}
	}
	return c
}

func (w *walk) step() {
	switch w.rand.IntN(10) {
	case 0, 1, 2:
		w.ids++
		key := []string{"", "a", "b"}[w.rand.IntN(3)]
		require.NoError(w,
			w.enqueue([]outbox.Event{{ID: fmt.Sprint(w.ids), Destination: w.destination(), OrderingKey: key}}))
	case 3, 4:
		for _, d := range w.claim(w.limits()) {
			w.leases = append(w.leases, d.Lease)
			w.claims++
		}
	case 5, 6, 7:
		var ended []outbox.Settlement
		for _, l := range w.take() {
			o := outbox.Outcome{Result: outbox.Result(1 + w.rand.IntN(4))}
			if o.Result == outbox.Waiting {
				o.Wait = time.Duration(w.rand.IntN(6))
			}
			ended = append(ended, outbox.Settlement{Lease: l, Outcome: o})
		}
		w.settle(ended)
	case 8:
		w.extend(w.now+w.rand.Int64N(6), w.leases)
		if w.rand.IntN(2) == 0 {
			w.disable(w.destination(), outbox.Failure{})
		} else {
			w.enable(w.destination())
		}
	case 9:
		first := w.scan(w.deaths, nil, nil)
		if first.key == nil {
			return
		}
		var letter state
		require.NoError(w, decode(w.dead.Get(first.key[8:]), &letter))
		end := w.revive
		if w.rand.IntN(3) == 0 {
			end = w.drop
		}
		require.NoError(w, end(letter.ID, letter.Destination))
	}
}

// take takes some of the leases.
func (w *walk) take() []outbox.Lease {
	w.rand.Shuffle(len(w.leases), func(i, j int) { w.leases[i], w.leases[j] = w.leases[j], w.leases[i] })
	n := w.rand.IntN(len(w.leases) + 1)
	taken := w.leases[:n]
	w.leases = w.leases[n:]
	return taken
}

// A row is an event that waits or is dead.
type row struct {
	seq uint64
	state
}

func (w *walk) rows(b *bbolt.Bucket) (rows []row) {
	for s := w.scan(b, nil, nil); s.key != nil; s.next() {
		r := row{seq: w.parse(s.key)}
		require.NoError(w, decode(s.value, &r.state))
		rows = append(rows, r)
	}
	require.Equal(w, uint64(len(rows)), b.Sequence(), "the number of entries")
	return rows
}

// check compares each index with the events, and a claim with a walk over all of them.
func (w *walk) check() {
	waiting, dead := w.rows(w.waiting), w.rows(w.dead)
	holder := map[string]uint64{}
	expect := map[*bbolt.Bucket][]string{}
	for _, r := range slices.Backward(dead) {
		expect[w.deaths] = append(expect[w.deaths], string(place{r.Died, r.seq}.key()))
		if r.Key != "" {
			holder[string(r.line())] = r.seq
			expect[w.held] = append(expect[w.held], string(r.line())+string(number(r.seq)))
		}
	}
	type head struct {
		place
		destination string
		held        bool
	}
	heads := map[string]head{}
	for _, r := range waiting {
		line := string(r.line()) + string(number(r.seq))
		if r.Key != "" {
			expect[w.members] = append(expect[w.members], line)
			if r.Leased {
				expect[w.leased] = append(expect[w.leased], line)
			}
			line = string(r.line())
		}
		h, ok := heads[line]
		if !ok {
			first := holder[line]
			h = head{place{r.Due, r.seq}, r.Destination, first != 0 && first < r.seq}
			if r.Key != "" {
				expect[w.lines] = append(expect[w.lines], line)
			}
		}
		if r.Leased {
			h.at = max(h.at, r.Due)
		}
		heads[line] = h
	}
	fronts := map[string]int64{}
	for _, h := range heads {
		in := string(lane(h.destination, h.held))
		expect[w.due] = append(expect[w.due], in+string(h.key()))
		if at, ok := fronts[in]; w.file.disabled.Get(text(h.destination)) == nil && (!ok || h.at < at) {
			fronts[in] = h.at
		}
	}
	for in, at := range fronts {
		expect[w.lanes] = append(expect[w.lanes], in)
		expect[w.fronts] = append(expect[w.fronts], in[len(in)-1:]+string(number(at))+in[:len(in)-1])
	}
	for _, b := range []*bbolt.Bucket{w.deaths, w.held, w.members, w.leased, w.lines, w.due, w.lanes, w.fronts} {
		var keys []string
		for s := w.scan(b, nil, nil); s.key != nil; s.next() {
			keys = append(keys, string(s.key))
		}
		slices.Sort(expect[b])
		require.Equal(w, expect[b], keys)
	}
	w.checkClaim(waiting, holder)
}

func (w *walk) checkClaim(waiting []row, holder map[string]uint64) {
	c := w.limits()
	c.Max = outbox.MaxClaim
	closed := map[string]bool{} // lines of which nothing more is due
	for _, r := range waiting {
		if r.Key != "" && r.Leased && r.Due > w.now {
			closed[string(r.line())] = true
		}
	}
	want, got := map[string]int{}, map[string]int{}
	for _, r := range waiting {
		line, first := string(r.line()), holder[string(r.line())]
		held := c.HoldKeys && r.Key != "" && first != 0 && first < r.seq
		switch {
		case r.Due > w.now || held || r.Key != "" && closed[line]:
			closed[line] = closed[line] || r.Key != ""
		case w.file.disabled.Get(text(r.Destination)) == nil && want[r.Destination] < c.Limit(r.Destination):
			want[r.Destination]++
		}
	}
	last := map[string]uint64{}
	for _, p := range w.picks(c) {
		got[p.state.Destination]++
		if p.state.Key != "" {
			require.Greater(w, p.seq, last[string(p.state.line())], "the order of a line")
			last[string(p.state.line())] = p.seq
		}
	}
	maps.DeleteFunc(want, func(_ string, n int) bool { return n == 0 })
	require.Equal(w, want, got, "events by destination of a claim with %+v", c)
}

// A sent event is purged when it is older than the age, and not at the very instant.
func TestPurgeDeletesEventsThatAreOlderThanTheAge(t *testing.T) {
	st, err := boltstore.Open(filepath.Join(t.TempDir(), "outbox.redo"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	q, err := New(t.Context(), st)
	require.NoError(t, err)
	require.NoError(t, st.Update(t.Context(), func(tx *boltstore.Tx) error {
		const enqueued, age = 100, 50
		f, err := q.open(tx, enqueued)
		require.NoError(t, err)
		require.NoError(t, f.enqueue([]outbox.Event{{ID: "a"}}))
		require.NoError(t, f.tidy())
		for _, d := range f.claim(outbox.Claim{Max: 1, Lease: 1}) {
			f.settle([]outbox.Settlement{{Lease: d.Lease, Outcome: outbox.Outcome{Result: outbox.Sent}}})
		}
		require.NoError(t, f.tidy())
		f.now = enqueued + age
		require.Zero(t, f.purge(f.now-age, 1))
		f.now++
		require.Equal(t, 1, f.purge(f.now-age, 1))
		return f.err
	}))
}
