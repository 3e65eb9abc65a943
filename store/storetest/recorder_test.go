package storetest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/redo-go/redo/store"
)

// A recorder is a reporter that keeps the reports of a case, for cases that are meant to fail.
type recorder struct {
	ctx      context.Context
	cleanups []func()
	messages []string
	skipped  bool
}

func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Cleanup(f func())         { r.cleanups = append(r.cleanups, f) }
func (r *recorder) FailNow()                 { runtime.Goexit() }

func (r *recorder) Errorf(format string, args ...any) {
	r.messages = append(r.messages, fmt.Sprintf(format, args...))
}

func (r *recorder) Skipf(string, ...any) {
	r.skipped = true
	runtime.Goexit()
}

// record runs a case in virtual time, in a separate goroutine that the case may end.
func record(t *testing.T, cfg config, c Case, factory func(*testing.T) store.Store) *recorder {
	t.Helper()
	r := &recorder{}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r.ctx = ctx
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() {
				cancel()
				for _, f := range slices.Backward(r.cleanups) {
					f()
				}
			}()
			c.run(cfg.trial(t, r, c, factory))
		}()
		<-done
	})
	return r
}
