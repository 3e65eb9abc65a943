package main

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/benchmarks/post"
)

// http.NewRequest replaces an empty body by http.NoBody, which no later Reset fills.
func TestTheHandlersGetTheBody(t *testing.T) {
	for _, tt := range []struct {
		name    string
		guarded bool
		replays bool
		status  string
		runs    int
	}{
		{"a bare handler for each request", false, false, "", 3},
		{"a guarded handler for each key", true, false, "stored", 3},
		{"a guarded handler once for one key", true, true, "replayed", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var sizes []int
			counting := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				require.NoError(t, err)
				sizes = append(sizes, len(body))
				post.Created(w, r)
			})
			build := func() http.Handler { return counting }
			if tt.guarded {
				build = func() http.Handler { return guard(counting) }
			}
			r, err := handled(build, tt.replays, tt.status)(t.TempDir())
			require.NoError(t, err)
			require.NoError(t, r.Run(3))
			want := make([]int, tt.runs)
			for i := range want {
				want[i] = post.SmallBody
			}
			require.Equal(t, want, sizes)
		})
	}
}
