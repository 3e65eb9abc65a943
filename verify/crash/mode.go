package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/redo-go/redo/server"
)

// A mode is a way to keep an effect to one.
type mode struct {
	name, title string
	options     func(*service) []server.Option
	enter       func(*service, context.Context, effect) error

	transaction bool // needs a store with transactions
	events      bool // each effect has an event
	mayRepeat   bool // a take-over may make the effect again: the documented gap
	mayRefuse   bool // a take-over may be refused for good
}

var modes = []mode{
	{
		name: "transaction", title: "one transaction",
		options: func(s *service) []server.Option { return []server.Option{s.at.transactional} },
		enter: func(s *service, ctx context.Context, e effect) error {
			return s.at.enter(ctx, e, event(s.role, e))
		},
		transaction: true, events: true,
	},
	{
		name: "recover", title: "two steps, recovering",
		options: func(s *service) []server.Option {
			return []server.Option{server.TakeOver(server.Recover(s.recover))}
		},
		enter: func(s *service, ctx context.Context, e effect) error {
			if err := s.ledger.enter(e, s.role.Defect != unfenced); err != nil {
				return err
			}
			return s.announce(ctx, e)
		},
		events: true,
	},
	{
		name: "refuse", title: "two steps, refusing",
		options: func(*service) []server.Option { return []server.Option{server.TakeOver(server.Refuse())} },
		enter: func(s *service, ctx context.Context, e effect) error {
			if err := s.ledger.enter(e, false); err != nil {
				return err
			}
			_ = server.Applied(ctx) // without the mark, the record of the response closes the gap
			return nil
		},
		mayRefuse: true,
	},
	{
		name: "rerun", title: "two steps, run again",
		options: func(*service) []server.Option { return []server.Option{server.TakeOver(server.Reexecute())} },
		enter: func(s *service, _ context.Context, e effect) error {
			return s.ledger.enter(e, false)
		},
		mayRepeat: true,
	},
}

func modeOf(name string) (mode, error) {
	i := slices.IndexFunc(modes, func(m mode) bool { return m.name == name })
	if i < 0 {
		return mode{}, fmt.Errorf("there is no mode %q", name)
	}
	return modes[i], nil
}

// recover reads the effect of an earlier owner of the key. The ledger refuses that owner from then on, in case it is
// only stopped.
func (s *service) recover(ctx context.Context, _ *http.Request, key string, _ []byte) (http.Handler, error) {
	found, err := s.ledger.find(key, server.Fence(ctx))
	if err != nil || found == nil {
		return nil, err
	}
	if err := s.announce(ctx, *found); err != nil {
		return nil, err
	}
	return respond(*found), nil
}
