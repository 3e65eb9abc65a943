package server_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// A request has seen that another process has used the key, and then the store fails.
func TestFailOpenRunsNoHandlerForAUsedKey(t *testing.T) {
	for rule, c := range map[string]struct {
		fails  string // the method of the store
		after  int    // calls of it
		pause  time.Duration
		late   time.Duration // of each Reserve
		before []server.Option
		opts   []server.Option
	}{
		"while it waits":              {fails: "Reserve", after: 1, opts: []server.Option{server.Wait(time.Minute)}},
		"if an old key is remembered": {fails: "Reserve", opts: []server.Option{server.RefuseExpiredKeys()}},
		"of another fingerprint":      {fails: "Reserve", after: 1, opts: []server.Option{server.CanonicalJSON()}},
		"while Pepper is rotated": {
			fails: "Reserve", before: []server.Option{beforeRotation}, opts: []server.Option{secondStep},
		},
		"after a late take-over": {
			fails: "Extend", pause: time.Minute, late: 20 * time.Second,
			opts: []server.Option{server.TakeOver(server.Refuse()), server.StoreTimeout(time.Minute)},
		},
	} {
		t.Run(rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared := memstore.New()
				key := withKey(v7(time.Now().Add(-server.DefaultRetention)))
				body := withHeader("Content-Type", "application/json")
				dying := newFaults(failing("Complete", store.ErrLost))
				dying.Store = shared
				first := newRig(t, dying, slow(5*time.Second), c.before...).start(key, body)
				time.Sleep(c.pause)
				st := newFaults(func(method string, nth int, do func() error) error {
					if method == "Reserve" {
						time.Sleep(c.late)
					}
					if method == c.fails && nth >= c.after {
						return store.ErrUnavailable
					}
					return do()
				})
				st.Store = shared
				again := newRig(t, st, func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") },
					append(c.opts, server.FailOpen())...)
				requireProblem(t, again.do(key, body), 503, "DEPENDENCY.unavailable")
				<-first
			})
		})
	}
}
