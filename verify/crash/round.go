package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/redo-go/redo/verify/internal/dbserver"
)

// A round is one fleet, from its start until everything is settled.
type round struct {
	place  place
	mode   mode
	seed   uint64
	kills  int
	dir    string // new; it is kept if a rule is broken
	engine *dbserver.Server
	defect string
	work   time.Duration // the longest time before an effect, and after it; 0: usualWork
	pace   time.Duration // the mean time between two decisions of the killer; 0: usualPace
	stops  int           // the share of SIGSTOP in 100; 0: usualStops
	stop   time.Duration // the longest time of a SIGSTOP; 0: longestStop
	only   string        // the part that is harmed; "": all
}

const (
	usualWork  = 20 * time.Millisecond
	usualPace  = 60 * time.Millisecond
	usualStops = 25
)

// varied returns the round with circumstances that its seed decides.
func (r round) varied() round {
	random := rand.New(rand.NewPCG(r.seed, 2))
	r.work = []time.Duration{5 * time.Millisecond, usualWork, 4 * usualWork}[random.IntN(3)]
	r.pace = []time.Duration{usualPace / 2, usualPace, 2 * usualPace}[random.IntN(3)]
	r.stops = []int{10, usualStops, 2 * usualStops}[random.IntN(3)]
	return r
}

// errBroken means that a rule is broken. The directory of the round has the evidence.
var errBroken = errors.New("a rule is broken")

// play plays the round. It returns the tally beside errBroken too.
func (r round) play(ctx context.Context) (t tally, err error) {
	f, err := newFleet(ctx, r)
	if err != nil {
		return t, err
	}
	defer f.close()
	k := killer{
		fleet: f, rand: rand.New(rand.NewPCG(r.seed, 1)), pace: cmp.Or(r.pace, usualPace),
		stops: cmp.Or(r.stops, usualStops), stop: cmp.Or(r.stop, longestStop), only: r.only, refusing: map[*link]*bool{},
	}
	harmed, err := k.run(ctx, r.kills)
	if err != nil {
		return t, err
	}
	stuck, err := f.settle(ctx)
	if err != nil {
		return t, err
	}
	found, err := f.evidence()
	if err != nil {
		return t, err
	}
	found.stuck = stuck
	t, violations := found.count(r.mode)
	t.harm = harmed
	if t.Successes == 0 {
		violations = append(violations, "no operation succeeded, so nothing was shown")
	}
	if len(violations) == 0 {
		return t, os.RemoveAll(r.dir)
	}
	if err := found.keep(r.dir, violations); err != nil {
		return t, err
	}
	const shown = 5
	return t, fmt.Errorf("%s, %s, seed %d: %w %d times; %s has the evidence:\n%s", r.place.Store, r.mode.title, r.seed,
		errBroken, len(violations), r.dir, strings.Join(violations[:min(shown, len(violations))], "\n"))
}
