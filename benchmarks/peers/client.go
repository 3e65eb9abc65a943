package main

import (
	"errors"
	"net/http"

	"github.com/redo-go/redo/benchmarks/contest"
	"github.com/redo-go/redo/benchmarks/post"
)

// Names of the scenarios of the clients.
const (
	inMemory      = "client-memory"
	overLoopback  = "client-loopback"
	retryMemory   = "client-retry-memory"
	retryLoopback = "client-retry-loopback"
)

// clientScenarios measure every peer with the same request, a new key and a deadline for each call.
func clientScenarios() []contest.Scenario {
	every := func(peer) bool { return true }
	retrying := func(p peer) bool { return p.retries }
	const responses = "a 256-byte POST with the responses 503, then 201, without a delay, "
	return []contest.Scenario{
		{
			Name: inMemory, Title: "a 256-byte POST with a new key and a deadline over a transport in memory",
			Reference:   peers[0].name,
			Contestants: onTransport(every, func() http.RoundTripper { return post.Memory{} }),
		},
		{
			Name: overLoopback, Title: "the same over a loopback socket; allocations are both ends'",
			Reference:   peers[0].name,
			Contestants: onLoopback(every, func() http.Handler { return post.Created }),
		},
		{
			Name: retryMemory, Title: responses + "in memory",
			Reference:   peers[1].name,
			Contestants: onTransport(retrying, func() http.RoundTripper { return &post.Flaky{} }),
		},
		{
			Name: retryLoopback, Title: responses + "over a loopback socket",
			Reference:   peers[1].name,
			Contestants: onLoopback(retrying, post.FlakyHandler),
		},
	}
}

// onTransport returns the chosen peers as contestants, each with a separate transport.
func onTransport(chosen func(peer) bool, transport func() http.RoundTripper) []contest.Contestant {
	return contestants(chosen, func(dir string) (target, func() error, error) {
		return target{rt: transport(), url: post.MemoryURL, dir: dir}, func() error { return nil }, nil
	})
}

// onLoopback returns the chosen peers as contestants. Each has its own server, transport and connection.
func onLoopback(chosen func(peer) bool, handler func() http.Handler) []contest.Contestant {
	return contestants(chosen, func(dir string) (target, func() error, error) {
		url, stop, err := post.Listen(handler())
		if err != nil {
			return target{}, nil, err
		}
		transport := &http.Transport{}
		return target{rt: transport, url: url, dir: dir}, func() error {
			transport.CloseIdleConnections()
			return stop()
		}, nil
	})
}

func contestants(chosen func(peer) bool, aim func(dir string) (target, func() error, error)) []contest.Contestant {
	payload := make([]byte, post.SmallBody)
	var all []contest.Contestant
	for _, p := range peers {
		if p.unequal || !chosen(p) {
			continue
		}
		all = append(all, contest.Contestant{Name: p.name, Open: func(dir string) (contest.Runner, error) {
			to, stop, err := aim(dir)
			if err != nil {
				return contest.Runner{}, err
			}
			s, err := p.open(to)
			if err != nil {
				return contest.Runner{}, errors.Join(err, stop())
			}
			call := p.measured(s)
			return contest.Serially(func(int) error { return call(payload) }, func() error {
				return errors.Join(s.stop(), stop())
			}), nil
		}})
	}
	return all
}
