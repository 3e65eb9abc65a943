package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/conformance"
)

// A counter behind the server's authentication needs the credentials too. Another server does not get them.
func TestHeaderGoesToTheCounterOfTheSameServer(t *testing.T) {
	for _, c := range []struct {
		rule    string
		effects *conformance.Effects
		want    map[string]string
	}{
		{"there is no counter", nil, nil},
		{"a path is on the same server", &conformance.Effects{URL: "/count"}, map[string]string{"Authorization": "new"}},
		{"a header of the counter stays", &conformance.Effects{URL: "/count", Headers: map[string]string{
			"authorization": "own"}}, map[string]string{"authorization": "own"}},
		{"a URL may be another server", &conformance.Effects{URL: "https://example.com/count"}, nil},
		{"a command sends nothing", &conformance.Effects{Command: []string{"count"}}, nil},
	} {
		t.Run(c.rule, func(t *testing.T) {
			target := conformance.Target{Effects: c.effects}
			flags := targetFlags{headers: []string{"Authorization: new", "Accept: text/plain"}}
			require.NoError(t, flags.addHeaders(&target))
			require.Equal(t, "new", target.Operation.Headers["Authorization"])
			if c.effects != nil {
				require.Equal(t, c.want, target.Effects.Headers)
			}
		})
	}
}
