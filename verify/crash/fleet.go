package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/redo-go/redo/internal/stage"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/verify/internal/dbserver"
	"github.com/redo-go/redo/webhook"
)

// A fleet is the processes of a round, and the links between them.
type fleet struct {
	mode   mode
	place  place
	dir    string
	engine *dbserver.Server // nil for a store in files
	seats  []*seat
	links  []*link
	remove func() // the tables
}

// newFleet starts the processes of a round on new, empty stores. The directory is made, and keeps the round's files.
func newFleet(ctx context.Context, r round) (f *fleet, err error) {
	f = &fleet{mode: r.mode, place: r.place, dir: r.dir, engine: r.engine, remove: func() {}}
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return f, err
	}
	if f.engine != nil {
		f.place.URL = f.engine.URL
	}
	remove, err := f.place.prepare(ctx, r.dir)
	if remove != nil {
		f.remove = remove
	}
	if err != nil {
		return f, err
	}
	if err := f.arrange(r); err != nil {
		return f, err
	}
	var started sync.WaitGroup
	failures := make([]error, len(f.seats))
	for i, s := range f.seats {
		started.Go(func() { failures[i] = s.start() })
	}
	started.Wait()
	return f, errors.Join(failures...)
}

// arrange makes the links and the seats.
func (f *fleet) arrange(of round) error {
	secret, err := webhook.NewSecret(nil)
	if err != nil {
		return err
	}
	targets := []string{"gateway", "service", "consumer"}
	for number := range targets {
		k, err := newLink(of.seed, uint64(number))
		if err != nil {
			return err
		}
		f.links = append(f.links, k)
	}
	r := role{
		Mode: f.mode.name, Defect: of.defect, Dir: f.dir, Work: cmp.Or(of.work, usualWork), Place: f.place,
		Secret: secret.Reveal(),
		Front:  f.links[0].URL(), Back: f.links[1].URL(), Events: f.links[2].URL() + "/events",
	}
	pair := 1
	if f.place.shared() {
		pair = 2
	}
	f.sit(r, "client", 2, 2)
	f.sit(r, "gateway", pair, 5/pair)
	f.sit(r, "service", pair, 8/pair)
	if f.events() {
		f.sit(r, "consumer", 1, 2)
		if f.place.shared() {
			f.sit(r, "relay", 1, 2)
		}
	}
	for number, part := range targets {
		f.links[number].open(func() []string { return f.addresses(part) })
	}
	return nil
}

// sit adds seats for a part.
func (f *fleet) sit(r role, part string, n, weight int) {
	for i := range n {
		r.Part, r.Name = part, fmt.Sprint(part, i)
		f.seats = append(f.seats, &seat{role: r, weight: weight})
	}
}

// events reports whether effects of the fleet have events.
func (f *fleet) events() bool { return f.mode.events && f.place.announces() }

// of returns the seats of a part.
func (f *fleet) of(part string) []*seat {
	return slices.DeleteFunc(slices.Clone(f.seats), func(s *seat) bool { return s.role.Part != part })
}

// addresses returns the addresses of a part's processes that listen.
func (f *fleet) addresses(part string) (addresses []string) {
	for _, s := range f.of(part) {
		if a := s.listening(); a != "" {
			addresses = append(addresses, a)
		}
	}
	return addresses
}

// close ends all processes, and removes the tables.
func (f *fleet) close() {
	var all sync.WaitGroup
	for _, s := range f.seats {
		all.Go(s.close)
	}
	all.Wait()
	for _, k := range f.links {
		k.close()
	}
	f.remove()
}

// settleLimit bounds the time in which the undisturbed processes settle everything.
const settleLimit = time.Minute

// settle lets the processes work undisturbed until no operation is open and no event waits. It returns the names of
// those that are stuck. Then it lets the clients repeat each success.
func (f *fleet) settle(ctx context.Context) (stuck []string, err error) {
	for _, k := range f.links {
		k.rest()
	}
	for _, command := range []string{"finish", "replay"} {
		for _, s := range f.of("client") {
			if _, err := stage.Ask[any](s.process, command); err != nil {
				return nil, err
			}
		}
		if stuck, err = f.quiet(ctx); err != nil || len(stuck) > 0 {
			return stuck, err
		}
	}
	return nil, nil
}

// quiet waits until nothing is open. It returns the names of what is, if the time is over.
func (f *fleet) quiet(ctx context.Context) (open []string, err error) {
	over := time.After(settleLimit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if open, err = f.open(); err != nil || len(open) == 0 {
			return nil, err
		}
		select {
		case <-tick.C:
		case <-over:
			return open, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// open returns the names of operations that have no end, and a line about events that wait.
func (f *fleet) open() (names []string, err error) {
	for _, s := range f.of("client") {
		more, err := stage.Ask[[]string](s.process, "open")
		if err != nil {
			return nil, err
		}
		names = append(names, more...)
	}
	if !f.events() || len(names) > 0 {
		return names, nil
	}
	events, err := stage.Ask[outbox.Stats](f.of("service")[0].process, "waiting")
	if err == nil && events.Waiting+events.Dead > 0 {
		names = append(names, fmt.Sprintf("%d events, and %d dead letters", events.Waiting, events.Dead))
	}
	return names, err
}

// evidence collects the lines that processes have written independently of redo.
func (f *fleet) evidence() (e evidence, err error) {
	e.events = f.events()
	if e.effects, err = stage.Ask[[]effect](f.of("service")[0].process, "effects"); err != nil {
		return e, err
	}
	if e.events {
		if e.notices, err = stage.Ask[[]notice](f.of("consumer")[0].process, "handled"); err != nil {
			return e, err
		}
	}
	for _, s := range f.of("service") {
		lines, err := readDiary[request](filepath.Join(f.dir, s.role.Name+".requests"))
		if err != nil {
			return e, err
		}
		e.requests = append(e.requests, lines...)
	}
	for _, s := range f.of("client") {
		lines, err := readDiary[call](filepath.Join(f.dir, s.role.Name+".calls"))
		if err != nil {
			return e, err
		}
		e.calls = append(e.calls, lines...)
	}
	return e, nil
}
