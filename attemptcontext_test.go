package redo

import (
	"context"
	"errors"
	"net/http/httptrace"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var _ context.Context = (*attempt)(nil)

type traced struct{}

// start begins an attempt of budget under parent.
func start(t *testing.T, parent context.Context, budget time.Duration) *attempt {
	a := &attempt{number: 1, start: time.Now(), budget: budget}
	a.ctx = a
	a.begin(parent)
	t.Cleanup(a.end)
	return a
}

// running asserts that ctx has not ended.
func running(t *testing.T, ctx context.Context) {
	t.Helper()
	synctest.Wait()
	select {
	case <-ctx.Done():
		require.Fail(t, "the context has ended", "%v", context.Cause(ctx))
	default:
	}
	require.NoError(t, ctx.Err())
	require.NoError(t, context.Cause(ctx))
}

// over asserts that ctx has ended, and how.
func over(t *testing.T, ctx context.Context, err, cause error) {
	t.Helper()
	synctest.Wait()
	select {
	case <-ctx.Done():
	default:
		require.Fail(t, "the context has not ended")
	}
	require.Equal(t, err, ctx.Err())
	require.Equal(t, cause, context.Cause(ctx))
}

var errStop = errors.New("shutting down")

// TestAttemptObeysTheRulesOfContexts runs each rule under virtual time; a goroutine that is left behind fails it.
func TestAttemptObeysTheRulesOfContexts(t *testing.T) {
	for name, f := range map[string]func(*testing.T){
		"it ends when its time is up": func(t *testing.T) {
			a := start(t, t.Context(), time.Minute)
			time.Sleep(time.Minute - 1)
			running(t, a)
			time.Sleep(time.Nanosecond)
			over(t, a, context.DeadlineExceeded, context.DeadlineExceeded)
			require.Equal(t, ErrAttemptTimeout, a.why())
		},
		"it ends when it is ended": func(t *testing.T) {
			a := start(t, t.Context(), time.Minute)
			running(t, a)
			require.NoError(t, a.why())
			a.end()
			over(t, a, context.Canceled, context.Canceled)
			time.Sleep(time.Hour)
			over(t, a, context.Canceled, context.Canceled)
		},
		"it ends with the caller's context, and its cause": func(t *testing.T) {
			parent, cancel := context.WithCancelCause(t.Context())
			a := start(t, parent, time.Minute)
			cancel(errStop)
			over(t, a, context.Canceled, errStop)
			require.Equal(t, errStop, a.why())
		},
		"it ends with the caller's deadline": func(t *testing.T) {
			parent, cancel := context.WithTimeoutCause(t.Context(), time.Second, errStop)
			defer cancel()
			a := start(t, parent, time.Minute)
			time.Sleep(time.Second)
			over(t, a, context.DeadlineExceeded, errStop)
			require.NotEqual(t, ErrAttemptTimeout, a.why(), "the caller's deadline is the caller's")
		},
		"it ends at once under a context that has ended": func(t *testing.T) {
			parent, cancel := context.WithCancelCause(t.Context())
			cancel(errStop)
			over(t, start(t, parent, time.Minute), context.Canceled, errStop)
		},
		"it ends at once when there is no time": func(t *testing.T) {
			over(t, start(t, t.Context(), 0), context.DeadlineExceeded, context.DeadlineExceeded)
			over(t, start(t, t.Context(), -time.Second), context.DeadlineExceeded, context.DeadlineExceeded)
		},
		"it needs no parent that can end": func(t *testing.T) {
			a := start(t, context.Background(), time.Minute)
			running(t, a)
			time.Sleep(time.Minute)
			over(t, a, context.DeadlineExceeded, context.DeadlineExceeded)
		},
		"the first end counts": func(t *testing.T) {
			parent, cancel := context.WithCancelCause(t.Context())
			a := start(t, parent, time.Minute)
			a.Done()
			time.Sleep(time.Minute)
			synctest.Wait()
			cancel(errStop)
			a.end()
			synctest.Wait()
			require.Equal(t, context.DeadlineExceeded, a.Err())
			require.Equal(t, ErrAttemptTimeout, a.why())
		},
		"its deadline is the earlier one": func(t *testing.T) {
			now := time.Now()
			near, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			far, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			for parent, want := range map[context.Context]time.Duration{t.Context(): time.Minute, far: time.Minute, near: time.Second} {
				deadline, ok := start(t, parent, time.Minute).Deadline()
				require.True(t, ok)
				require.Equal(t, now.Add(want), deadline)
			}
		},
		"its channel is one, whenever it is asked for": func(t *testing.T) {
			a := start(t, t.Context(), time.Minute)
			done := a.Done()
			require.True(t, done == a.Done())
			a.end()
			<-done
			require.True(t, done == a.Done())
			b := start(t, t.Context(), time.Minute)
			b.end()
			done = b.Done()
			<-done
			require.True(t, done == b.Done())
		},
		"it has the caller's values": func(t *testing.T) { // trap 67
			a := start(t, context.WithValue(t.Context(), traced{}, "abc"), time.Minute)
			require.Equal(t, "abc", a.Value(traced{}))
			require.Nil(t, a.Value("other"))
			a.end()
			require.Equal(t, "abc", a.Value(traced{}), "also after its end")
		},
		"a stopped clock does not end it": func(t *testing.T) {
			parent, cancel := context.WithCancelCause(t.Context())
			a := start(t, parent, time.Minute)
			require.True(t, a.stopClock())
			time.Sleep(time.Hour)
			running(t, a)
			cancel(errStop)
			over(t, a, context.Canceled, errStop)
		},
		"a clock that ran out can't be stopped": func(t *testing.T) {
			a := start(t, t.Context(), time.Minute)
			a.Done()
			time.Sleep(time.Minute)
			synctest.Wait()
			require.False(t, a.stopClock())
		},
		"a clock that ran out can't be stopped before that is told either": func(t *testing.T) {
			a := start(t, t.Context(), time.Minute)
			a.Done()
			a.watch.timer.Stop()
			hold := make(chan struct{})
			a.watch.timer = time.AfterFunc(time.Minute, func() { <-hold; a.expire() })
			time.Sleep(time.Minute)
			synctest.Wait()
			require.NoError(t, a.Err())
			require.False(t, a.stopClock(), "the context is about to end, and a body that is read on it with it")
			close(hold)
		},
		"a clock that nobody watches is stopped by the answer": func(t *testing.T) {
			a := start(t, t.Context(), time.Minute)
			time.Sleep(time.Hour)
			require.True(t, a.stopClock(), "a transport that does not look at the clock has brought an answer all the same")
			running(t, a)
		},
		"a stopped clock is not started by who looks at it later": func(t *testing.T) {
			a := start(t, t.Context(), time.Minute)
			require.True(t, a.stopClock())
			a.Done()
			time.Sleep(time.Hour)
			running(t, a)
		},
		"an attempt that nobody waits for ends when it is asked": func(t *testing.T) {
			a := start(t, t.Context(), time.Minute)
			time.Sleep(time.Minute)
			require.Equal(t, context.DeadlineExceeded, a.Err())
			require.Equal(t, ErrAttemptTimeout, a.why())
			parent, cancel := context.WithCancelCause(t.Context())
			b := start(t, parent, time.Minute)
			cancel(errStop)
			require.Equal(t, context.Canceled, b.Err())
			require.Equal(t, errStop, b.why())
			require.Nil(t, a.watch)
			require.Nil(t, b.watch)
		},
		"its end lets go of the caller's context": func(t *testing.T) {
			// An attempt as a parent shows what is hung up on it.
			parent := start(t, context.Background(), time.Hour)
			a := start(t, parent, time.Minute)
			require.Nil(t, parent.watch, "nobody waits for an end yet")
			a.Done()
			require.Len(t, parent.watch.after, 1)
			a.end()
			require.Empty(t, parent.watch.after)
			running(t, parent)
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
	}
}

func TestAttemptCallsBack(t *testing.T) {
	for name, f := range map[string]func(*testing.T, *attempt){
		"once, when it ends": func(t *testing.T, a *attempt) {
			calls := 0
			stop := a.AfterFunc(func() { calls++ })
			synctest.Wait()
			require.Zero(t, calls)
			a.end()
			a.end()
			synctest.Wait()
			require.Equal(t, 1, calls)
			require.False(t, stop(), "it was called already")
		},
		"at once, when it has ended": func(t *testing.T, a *attempt) {
			a.end()
			calls := 0
			stop := a.AfterFunc(func() { calls++ })
			require.False(t, stop())
			synctest.Wait()
			require.Equal(t, 1, calls)
		},
		"not when it was stopped": func(t *testing.T, a *attempt) {
			calls := 0
			stop := a.AfterFunc(func() { calls++ })
			require.True(t, stop())
			require.False(t, stop(), "it was stopped already")
			a.end()
			synctest.Wait()
			require.Zero(t, calls)
		},
		"those that were not stopped": func(t *testing.T, a *attempt) {
			var called [3]bool
			var stops [3]func() bool
			for i := range called {
				stops[i] = a.AfterFunc(func() { called[i] = true })
			}
			require.True(t, stops[1]())
			a.end()
			synctest.Wait()
			require.Equal(t, [3]bool{true, false, true}, called)
		},
		"outside of its lock": func(t *testing.T, a *attempt) {
			var err error
			a.AfterFunc(func() { err = a.Err() })
			a.end()
			synctest.Wait()
			require.Equal(t, context.Canceled, err)
		},
		"for context.AfterFunc": func(t *testing.T, a *attempt) {
			calls := 0
			stopped := context.AfterFunc(a, func() { t.Error("it was stopped") })
			context.AfterFunc(a, func() { calls++ })
			require.True(t, stopped())
			require.Len(t, a.watch.after, 1)
			a.end()
			synctest.Wait()
			require.Equal(t, 1, calls)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, start(t, t.Context(), time.Minute)) })
		})
	}
}

func TestAttemptEndsItsChildren(t *testing.T) {
	children := func(t *testing.T, a *attempt) map[string]context.Context {
		plain, cancel := context.WithCancel(a)
		t.Cleanup(cancel)
		cause, cancelCause := context.WithCancelCause(a)
		t.Cleanup(func() { cancelCause(nil) })
		timeout, cancel := context.WithTimeout(a, time.Hour)
		t.Cleanup(cancel)
		grandchild, cancel := context.WithCancel(context.WithValue(plain, traced{}, 1))
		t.Cleanup(cancel)
		return map[string]context.Context{"WithCancel": plain, "WithCancelCause": cause, "WithTimeout": timeout, "a child's child": grandchild}
	}
	for name, f := range map[string]func(*testing.T){
		"when its time is up": func(t *testing.T) {
			a := start(t, t.Context(), time.Minute)
			all := children(t, a)
			time.Sleep(time.Minute)
			for _, child := range all {
				over(t, child, context.DeadlineExceeded, context.DeadlineExceeded)
			}
		},
		"when it is ended": func(t *testing.T) {
			a := start(t, t.Context(), time.Minute)
			all := children(t, a)
			for _, child := range all {
				running(t, child)
			}
			a.end()
			for _, child := range all {
				over(t, child, context.Canceled, context.Canceled)
			}
		},
		"with the caller's cause": func(t *testing.T) { // trap 68
			parent, cancel := context.WithCancelCause(t.Context())
			a := start(t, parent, time.Minute)
			all := children(t, a)
			cancel(errStop)
			for _, child := range all {
				over(t, child, context.Canceled, errStop)
			}
		},
		"at once when it has ended": func(t *testing.T) {
			a := start(t, t.Context(), time.Minute)
			a.end()
			for _, child := range children(t, a) {
				over(t, child, context.Canceled, context.Canceled)
			}
		},
		"without a goroutine for each": func(t *testing.T) {
			a := start(t, t.Context(), time.Minute)
			var cancels []context.CancelFunc
			for range 50 {
				_, cancel := context.WithCancel(a)
				cancels = append(cancels, cancel)
			}
			require.Len(t, a.watch.after, 50, "package context hangs its children up here")
			for _, cancel := range cancels {
				cancel()
			}
			require.Empty(t, a.watch.after, "and takes them down when they end")
			running(t, a)
		},
		"but not those that were cut loose": func(t *testing.T) {
			a := start(t, t.Context(), time.Minute)
			loose := context.WithoutCancel(a)
			a.end()
			running(t, loose)
		},
		"and a child's end is its own": func(t *testing.T) {
			a := start(t, t.Context(), time.Minute)
			child, cancel := context.WithCancelCause(a)
			cancel(errStop)
			over(t, child, context.Canceled, errStop)
			running(t, a)
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
	}
}

func TestAttemptIsItsOwnTrace(t *testing.T) {
	require.NotNil(t, traceKey)
	var caller, observer []string
	parent := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GotConn:      func(httptrace.GotConnInfo) { caller = append(caller, "connection") },
		WroteHeaders: func() { caller = append(caller, "headers") },
	})
	for _, c := range []struct {
		name   string
		parent context.Context
		wrap   func(context.Context) context.Context
		caller []string
		observ []string
	}{
		{"alone", t.Context(), nil, nil, nil},
		{"with the caller's own", parent, nil, []string{"connection", "headers"}, nil},
		{"under what an observer adds", parent, func(ctx context.Context) context.Context {
			return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { observer = append(observer, "connection") }})
		}, []string{"connection", "headers"}, []string{"connection"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			caller, observer = nil, nil
			a := start(t, c.parent, time.Minute)
			var ctx context.Context = a
			if c.wrap != nil {
				ctx = c.wrap(a)
			}
			require.Zero(t, a.wireSends())
			trace := httptrace.ContextClientTrace(ctx)
			trace.GotConn(httptrace.GotConnInfo{})
			if trace.WroteHeaders != nil {
				trace.WroteHeaders()
			}
			require.Equal(t, 1, a.wireSends())
			require.Equal(t, c.caller, caller)
			require.Equal(t, c.observ, observer)
			require.Same(t, a.clientTrace(), httptrace.ContextClientTrace(a), "it is made once")
			httptrace.ContextClientTrace(ctx).GotConn(httptrace.GotConnInfo{})
			require.Equal(t, 2, a.wireSends())
		})
	}
	t.Run("and nobody else's", func(t *testing.T) {
		start(t, parent, time.Minute).clientTrace()
		caller = nil
		httptrace.ContextClientTrace(parent).GotConn(httptrace.GotConnInfo{})
		require.Equal(t, []string{"connection"}, caller, "the caller's trace is as it was")
	})
}

func TestAttemptUnderConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		a := start(t, parent, time.Second)
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 100 * ms) // some before, some at and some after its end
				stop := a.AfterFunc(func() {})
				child, release := context.WithCancel(a)
				_, _ = a.Deadline()
				_ = httptrace.ContextClientTrace(a)
				if i%2 == 0 {
					stop()
					release()
				}
				<-child.Done()
				release()
				if i == 12 {
					a.end()
					cancel(errStop)
				}
				_ = a.why()
			})
		}
		wg.Wait()
		require.Equal(t, context.DeadlineExceeded, a.Err())
	})
}
