package main

import (
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/benchmarks/post"
)

// http.NewRequest replaces an empty body by http.NoBody, which no later Reset fills.
func TestTheHandlersGetTheBody(t *testing.T) {
	for _, tt := range []struct {
		name    string
		guard   func(http.Handler) http.Handler
		replays bool
		status  string
		runs    int
	}{
		{"a bare handler for each request", unguarded, false, "", 3},
		{"a handler in parts for each key", inParts, false, "stored", 3},
		{"a guarded handler for each key", guarded, false, "stored", 3},
		{"a guarded handler once for one key", guarded, true, "replayed", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var sizes []int
			next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				require.NoError(t, err)
				sizes = append(sizes, len(body))
				post.Created(w, r)
			})
			r, err := handled(tt.guard, next, tt.replays, tt.status)(t.TempDir())
			require.NoError(t, err)
			require.NoError(t, r.Run(3))
			require.Equal(t, slices.Repeat([]int{post.SmallBody}, tt.runs), sizes)
		})
	}
}
