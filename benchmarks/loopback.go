package main

import (
	"errors"
	"net/http"

	"github.com/redo-go/redo/benchmarks/contest"
	"github.com/redo-go/redo/benchmarks/post"
)

func loopbackScenario() contest.Scenario {
	return contest.Scenario{
		Name:        "loopback",
		Title:       "a 256-byte POST over a loopback socket, one after the other; allocations are both ends'",
		Reference:   byKeyedNetHTTP,
		Contestants: overLoopback(anyClient, func() http.Handler { return post.Created }),
	}
}

func retryLoopbackScenario() contest.Scenario {
	return contest.Scenario{
		Name:        "retry-loopback",
		Title:       "a 256-byte POST with the responses 503, then 201, over a loopback socket, without a delay",
		Reference:   byKeyedStandard,
		Contestants: overLoopback(retryingClient, post.FlakyHandler),
	}
}

// overLoopback returns the chosen clients as contestants. Each has its own server, transport and connection.
func overLoopback(chosen func(clientKind) bool, handler func() http.Handler) []contest.Contestant {
	payload := make([]byte, post.SmallBody)
	var all []contest.Contestant
	for _, c := range clients {
		if !chosen(c) {
			continue
		}
		all = append(all, contest.Contestant{Name: c.name, Open: func(string) (contest.Runner, error) {
			url, stop, err := post.Listen(handler())
			if err != nil {
				return contest.Runner{}, err
			}
			transport := &http.Transport{}
			closer := func() error {
				transport.CloseIdleConnections()
				return stop()
			}
			send, err := c.over(transport)
			if err != nil {
				return contest.Runner{}, errors.Join(err, closer())
			}
			return contest.Serially(func(int) error { return send(url, payload) }, closer), nil
		}})
	}
	return all
}
