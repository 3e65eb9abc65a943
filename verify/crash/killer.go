package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// A killer harms the processes of a fleet at random moments. The scheduler decides the exact moments, so a seed does
// not repeat a run exactly.
type killer struct {
	fleet *fleet
	rand  *rand.Rand
	pace  time.Duration // the mean time between two decisions
	stops int           // the share of SIGSTOP in 100
	stop  time.Duration // the longest time of a SIGSTOP
	only  string        // the part that is harmed; "": all

	mu    sync.Mutex
	tally harm
	errs  []error

	engineBusy bool
	refusing   map[*link]*bool
	running    sync.WaitGroup
}

// harm counts what was done to processes.
type harm struct {
	Kills       int `json:"kills"` // SIGKILL, engines included
	Stops       int `json:"stops"` // SIGSTOP, engines included
	EngineKills int `json:"engine_kills"`
	EngineStops int `json:"engine_stops"`
}

func (h *harm) add(other harm) {
	h.Kills += other.Kills
	h.Stops += other.Stops
	h.EngineKills += other.EngineKills
	h.EngineStops += other.EngineStops
}

// longestStop is more than three leases.
const longestStop = 1300 * time.Millisecond

// run harms until so many processes were killed. Then all of them run again.
func (k *killer) run(ctx context.Context, kills int) (harm, error) {
	for k.killed() < kills && ctx.Err() == nil && len(k.failures()) == 0 {
		time.Sleep(time.Duration(k.rand.Int64N(int64(2 * k.pace))))
		k.step(kills)
	}
	k.running.Wait()
	return k.tally, errors.Join(append(k.failures(), ctx.Err())...)
}

func (k *killer) killed() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.tally.Kills
}

func (k *killer) failures() []error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.errs
}

// step harms the engine or a seat. Half of the seats stay untouched.
func (k *killer) step(kills int) {
	if k.fleet.engine != nil && k.rand.IntN(k.fleet.place.rarity()) == 0 {
		k.harmEngine()
		return
	}
	if n := k.rand.IntN(20 * len(k.fleet.links)); n < len(k.fleet.links) {
		k.refuse(k.fleet.links[n])
		return
	}
	victim := k.pick()
	if victim == nil {
		return
	}
	victim.busy = true
	stop, stopped := k.rand.IntN(100) < k.stops, time.Duration(k.rand.Int64N(int64(k.stop)))
	kill := !stop || k.rand.IntN(5) == 0 // some are killed while they are stopped
	k.mu.Lock()
	if kill = kill && k.tally.Kills < kills; kill {
		k.tally.Kills++
	}
	if stop {
		k.tally.Stops++
	}
	k.mu.Unlock()
	k.start(func() error {
		if stop {
			if err := victim.stop(stopped, !kill); err != nil {
				return err
			}
		}
		if kill {
			return victim.kill()
		}
		return nil
	}, &victim.busy)
}

// start runs an action beside others. An error ends the round.
func (k *killer) start(action func() error, busy *bool) {
	k.running.Go(func() {
		err := action()
		k.mu.Lock()
		defer k.mu.Unlock()
		*busy = false
		if err != nil {
			k.errs = append(k.errs, err)
		}
	})
}

// pick draws a seat by its weight. It returns nil if half of the seats are being harmed.
func (k *killer) pick() *seat {
	k.mu.Lock()
	defer k.mu.Unlock()
	free, all, busy := []*seat{}, 0, 0
	for _, s := range k.fleet.seats {
		switch {
		case k.only != "" && k.only != s.role.Part:
		case s.busy:
			busy++
		default:
			free = append(free, s)
			all += s.weight
		}
	}
	if busy >= max(1, len(free)) {
		return nil
	}
	n := k.rand.IntN(all)
	for _, s := range free {
		if n -= s.weight; n < 0 {
			return s
		}
	}
	return nil
}

// refuse lets a link refuse connections for up to half a second.
func (k *killer) refuse(l *link) {
	d := time.Duration(k.rand.Int64N(int64(500 * time.Millisecond)))
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.refusing[l] == nil {
		k.refusing[l] = new(bool)
	}
	if busy := k.refusing[l]; !*busy {
		*busy = true
		k.start(func() error { return l.refuse(d) }, busy)
	}
}

// rarity is the number of steps for each one that harms the engine. MariaDB takes seconds to start.
func (p place) rarity() int {
	switch p.Store {
	case "redis":
		return 10
	case "postgres":
		return 15
	default:
		return 30
	}
}

// harmEngine kills or stops the engine. It is left alone for as long as it starts.
func (k *killer) harmEngine() {
	e := k.fleet.engine
	stop, d := k.rand.IntN(2) == 0, time.Duration(k.rand.Int64N(int64(longestStop)))
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.engineBusy {
		return
	}
	k.engineBusy = true
	if stop {
		k.tally.Stops++
		k.tally.EngineStops++
	} else {
		k.tally.Kills++
		k.tally.EngineKills++
	}
	k.start(func() error {
		if !stop {
			err := e.Kill()
			time.Sleep(d / 4)
			return errors.Join(err, e.Start())
		}
		err := e.Stop()
		time.Sleep(d)
		return errors.Join(err, e.Continue())
	}, &k.engineBusy)
}
