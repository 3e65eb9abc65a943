package server_test

import (
	"math"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// rows is a separate database, whose rows keep the fence of their last write.
type rows struct {
	mu      sync.Mutex
	fence   uint64
	written []string
}

// write is UPDATE … WHERE fence <= $1.
func (r *rows) write(fence uint64, value string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fence > fence {
		return false
	}
	r.fence, r.written = fence, append(r.written, value)
	return true
}

func TestFence(t *testing.T) {
	// A process is paused for longer than its lease: its heartbeat does not run, and its handler does not see that.
	paused := func(t *testing.T, fenced bool) []string {
		t.Helper()
		mem := memstore.New()
		var db rows
		write := func(r *http.Request, value string) bool {
			if !fenced {
				return db.write(math.MaxUint64, value)
			}
			return db.write(server.Fence(r.Context()), value)
		}
		stopped := newFaults(failing("Extend", store.ErrUnavailable))
		stopped.Store = mem
		g := newRig(t, stopped, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Minute)
			if write(r, "first") {
				created(w, r)
				return
			}
			w.WriteHeader(http.StatusConflict)
		}, server.HandlerTimeout(time.Hour))
		other := newRig(t, mem, func(w http.ResponseWriter, r *http.Request) {
			require.True(t, write(r, "second"))
			created(w, r)
		})
		first := g.start()
		time.Sleep(40 * time.Second)
		requireStored(t, other.do(), 201, `{"id":"rf_123"}`)
		requireProblem(t, <-first, 503, "DEPENDENCY.unavailable")
		return db.written
	}
	t.Run("a condition on it keeps a paused process from a second effect", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { require.Equal(t, []string{"second"}, paused(t, true)) })
	})
	t.Run("without the condition there are two effects", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { require.Equal(t, []string{"second", "first"}, paused(t, false)) })
	})
	t.Run("grows over a release and a take-over", func(t *testing.T) {
		var fences []uint64
		g := newRig(t, memstore.New(), func(w http.ResponseWriter, r *http.Request) {
			fences = append(fences, server.Fence(r.Context()))
			if len(fences) == 2 {
				server.Unknown(r.Context())
			}
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		for range 3 {
			g.do()
		}
		require.NotZero(t, fences[0])
		require.Less(t, fences[0], fences[1])
		require.Less(t, fences[1], fences[2])
	})
	t.Run("is there in a transaction, and zero without a key and untracked", func(t *testing.T) {
		fence := func(w http.ResponseWriter, r *http.Request) {
			if server.Fence(r.Context()) > 0 {
				w.Header().Set("X-Fence", "yes")
			}
			created(w, r)
		}
		require.Equal(t, "yes", newBookRig(t, newBook(nil), fence).do().Header().Get("X-Fence"))
		require.Empty(t, newRig(t, memstore.New(), fence).do(without("Idempotency-Key")).Header().Get("X-Fence"))
		down := newFaults(failing("Reserve", store.ErrUnavailable))
		require.Empty(t, newRig(t, down, fence, server.FailOpen()).do().Header().Get("X-Fence"))
	})
}
