package redo_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store"
)

// forgetful is the profile of an API that remembers a key for ten minutes. The client's margin is an eighth of that.
func forgetful() redo.Profile {
	p := redo.RedoProfile()
	p.Retention = 10 * time.Minute
	return p
}

// usable is the time for which a client sends a key of a forgetful API.
const usable = 10*time.Minute - 75*time.Second

// patient is a policy whose total is far longer than the retention of a forgetful API.
var patient = redo.RetryPolicy{MaxAttempts: 100, MaxElapsed: 10 * time.Hour, BaseDelay: 4 * time.Minute,
	MaxDelay: 4 * time.Minute, Jitter: redo.ConstantDelay}

func TestRetentionCapsTheRetriesOfOneCall(t *testing.T) {
	down := servertest.Status(503)
	for _, c := range []struct {
		name   string
		stored bool
		faults []servertest.Fault
		at     []time.Duration
		again  time.Duration // the wait that was not made
	}{
		{
			"of an unnamed request",
			false, []servertest.Fault{down, down, down}, []time.Duration{0, 4 * time.Minute, 8 * time.Minute},
			4 * time.Minute,
		},
		{
			"of a stored operation",
			true, []servertest.Fault{down, down, down}, []time.Duration{0, 4 * time.Minute, 8 * time.Minute},
			4 * time.Minute,
		},
		{
			"also where the server requests a longer wait",
			false, []servertest.Fault{down.With(servertest.RetryAfterSeconds(600))}, []time.Duration{0},
			10 * time.Minute,
		},
		{
			"also after an attempt that hung",
			false, []servertest.Fault{servertest.Delay(time.Hour)}, []time.Duration{0}, 4 * time.Minute,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				policy := patient
				policy.AttemptTimeout = usable
				srv := servertest.NewInMemory(t, servertest.ScriptNext(c.faults...))
				opts := []redo.Option{redo.WithProfile(forgetful()), redo.WithRetry(policy)}
				ctx := t.Context()
				if c.stored {
					opts, ctx = append(opts, redo.WithStore(openStore(t))), redo.WithOperation(ctx, "op")
				}
				start := time.Now()
				e := fail(t, connect(t, srv.Transport(), opts...), post(t, ctx, srv.URL, payment))
				require.ErrorIs(t, e, redo.ErrTooLate)
				require.Equal(t, c.at, offsets(srv, start))
				require.Equal(t, c.again, time.Until(e.RetryAt))
				require.Equal(t, redo.EffectUnknown, e.Effect)
			})
		})
	}
}

// A key without a store has no age at the next call. The call that could send it too late must not be suggested.
func TestACallPastTheRetentionIsNotSafeToRetry(t *testing.T) {
	for _, c := range []struct {
		name   string
		fault  servertest.Fault
		given  string // for WithKey; "": a key of this call alone
		stored bool
		wait   time.Duration
		want   bool
	}{
		{"a lost response", servertest.ResetAfterEffect(), "k1", false, usable, false},
		{"a lost response, and a shorter wait", servertest.ResetAfterEffect(), "k1", false, usable - time.Second, true},
		{"a request that had no effect", servertest.RateLimited(), "", false, usable, true},
		{"a stored operation, whose key has an age", servertest.ResetAfterEffect(), "k1", true, usable, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				policy := patient
				policy.BaseDelay, policy.MaxDelay, policy.MaxElapsed = c.wait, c.wait, c.wait
				srv := servertest.NewInMemory(t, servertest.ScriptNext(c.fault))
				opts := []redo.Option{redo.WithProfile(forgetful()), redo.WithRetry(policy)}
				if c.stored {
					opts = append(opts, redo.WithStore(openStore(t)))
				}
				ctx := t.Context()
				if c.given != "" {
					ctx = redo.WithKey(redo.WithOperation(ctx, "op"), c.given)
				}
				e := fail(t, connect(t, srv.Transport(), opts...), post(t, ctx, srv.URL, payment))
				require.ErrorIs(t, e, redo.ErrTooLate)
				require.Equal(t, c.want, redo.SafeToRetry(e))
			})
		})
	}
}

// The wait is near the longest duration there is, so that no time can be added to it.
func TestAWaitOfCenturiesIsNotSafeToRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
			time.Sleep(2 * time.Second)
			return answer(r, 503, "", "Retry-After", "9223372036"), nil
		}))
		e := fail(t, client, post(t, redo.WithKey(t.Context(), "k1"), "http://api.test/", payment))
		require.False(t, redo.SafeToRetry(e))
	})
}

func TestRetriesWithinTheRetentionAreMade(t *testing.T) {
	down := servertest.Status(503)
	for _, c := range []struct {
		name  string
		opts  []redo.Option
		keyed bool
		wait  time.Duration
	}{
		{"the wait ends just before", []redo.Option{redo.WithProfile(forgetful())}, true, usable - time.Nanosecond},
		{
			"a request without a key has no retention",
			[]redo.Option{redo.WithProfile(forgetful()), redo.WithKeys(nil)}, false, 2 * usable,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				policy := patient
				policy.BaseDelay, policy.MaxDelay = c.wait, c.wait
				srv := servertest.NewInMemory(t, servertest.ScriptNext(down, servertest.OK()))
				start := time.Now()
				req := post(t, t.Context(), srv.URL, payment)
				if !c.keyed {
					req.Method = "PUT"
				}
				succeed(t, connect(t, srv.Transport(), append(c.opts, redo.WithRetry(policy))...), req)
				require.Equal(t, []time.Duration{0, c.wait}, offsets(srv, start))
			})
		})
	}
}

// A slowLimiter lets the n-th attempt through after the n-th wait.
type slowLimiter struct{ waits []time.Duration }

func (l *slowLimiter) Wait(ctx context.Context) error {
	wait := l.waits[0]
	l.waits = l.waits[1:]
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A limiter's queue is time too: the key grows old in it.
func TestWaitForTheLimiterDoesNotOutlastTheRetention(t *testing.T) {
	t.Run("of a retry", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.ResetAfterEffect()))
			client := connect(t, srv.Transport(), redo.WithProfile(forgetful()), redo.WithRetry(patient),
				redo.WithLimiter(&slowLimiter{[]time.Duration{0, time.Hour}}))
			start := time.Now()
			e := fail(t, client, post(t, t.Context(), srv.URL, payment))
			require.ErrorIs(t, e, redo.ErrLimited)
			require.NotErrorIs(t, e, context.DeadlineExceeded, "no caller's deadline has passed")
			require.Equal(t, redo.EffectUnknown, e.Effect)
			require.Equal(t, usable, time.Since(start))
			require.Len(t, srv.Requests(), 1)
		})
	})
	t.Run("of an operation that is continued", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.ResetAfterEffect()))
			st := openStore(t)
			crash(t, srv, st, named(t, srv, "op", payment), redo.WithProfile(forgetful()))
			client := connect(t, srv.Transport(), redo.WithStore(st), redo.WithProfile(forgetful()),
				redo.WithRetry(patient),
				redo.WithLimiter(&slowLimiter{[]time.Duration{time.Hour}}))
			e := fail(t, client, named(t, srv, "op", payment))
			require.ErrorIs(t, e, redo.ErrLimited)
			require.Equal(t, redo.EffectUnknown, e.Effect)
			require.Len(t, srv.Requests(), 1)
		})
	})
	t.Run("a wait within it is made", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.ResetAfterEffect()))
			client := connect(t, srv.Transport(), redo.WithProfile(forgetful()), redo.WithRetry(patient),
				redo.WithLimiter(&slowLimiter{[]time.Duration{0, time.Minute}}))
			resp, _ := succeed(t, client, post(t, t.Context(), srv.URL, payment))
			require.True(t, redo.Replayed(resp))
			srv.Ledger().AssertEffects(t, redo.KeyOf(resp), 1)
		})
	})
}

// A delayingObserver takes long over the second attempt, as a machine does that is suspended meanwhile.
type delayingObserver struct {
	attemptLog
	wait time.Duration
}

func (o *delayingObserver) StartAttempt(ctx context.Context, s redo.AttemptStart) context.Context {
	if s.Number > 1 {
		time.Sleep(o.wait)
	}
	return ctx
}

func TestAnAttemptThatIsDelayedPastTheRetentionIsNotSent(t *testing.T) {
	for _, c := range []struct {
		name string
		wait time.Duration
		sent int
	}{
		{"past it", usable - 4*time.Minute, 1},
		{"within it", usable - 4*time.Minute - 1, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				faults := []servertest.Fault{servertest.ResetAfterEffect(), servertest.Status(503)}
				srv := servertest.NewInMemory(t, servertest.ScriptNext(faults[:c.sent]...))
				policy := patient
				policy.MaxAttempts = 2
				log := &delayingObserver{attemptLog{new([]redo.AttemptEnd)}, c.wait}
				client := connect(t, srv.Transport(), redo.WithStore(openStore(t)), redo.WithProfile(forgetful()),
					redo.WithRetry(policy), redo.WithObserver(log))
				e := fail(t, client, named(t, srv, "op", payment))
				require.Equal(t, c.sent == 1, errors.Is(e, redo.ErrTooLate))
				require.Equal(t, redo.EffectUnknown, e.Effect)
				require.Len(t, srv.Requests(), c.sent)
				op, err := client.Find(t.Context(), "op")
				require.NoError(t, err)
				require.Equal(t, store.StatePending, op.State)
			})
		})
	}
}
