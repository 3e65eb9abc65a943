package redo

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/limit"
	"github.com/redo-go/redo/taxonomy"
)

// budgetLeft withdraws until it is refused, and counts.
func budgetLeft(b *limit.Buckets, most int) int {
	for n := range most {
		if !b.Withdraw(bank) {
			return n
		}
	}
	return most
}

// A retry's token is given back unless the retry ended in another failure of the server (trap 61).
func TestWhatARetryCosts(t *testing.T) {
	const reserve = 10
	refusal := errors.New("the breaker's own error")
	two, one := WithRetry(RetryPolicy{MaxAttempts: 2}), WithRetry(RetryPolicy{MaxAttempts: 1})
	for _, c := range []struct {
		name    string
		rt      *scripted
		options []Option
		cancel  time.Duration // when the caller gives up, if not zero
		want    int           // the rest of the reserve
		err     error
	}{
		{"no retry costs nothing", &scripted{statuses: []int{200}}, nil, 0, reserve, nil},
		{"a terminal response costs nothing", &scripted{statuses: []int{400}}, nil, 0, reserve, taxonomy.BadRequest},
		{"a retry that succeeds is given back", &scripted{statuses: []int{503, 200}}, nil, 0, reserve, nil},
		{
			"a retry that ends in a terminal response is given back", &scripted{statuses: []int{503, 400}}, nil, 0,
			reserve, taxonomy.BadRequest,
		},
		{
			"a retry that fails again is spent", &scripted{statuses: []int{503}}, []Option{two}, 0, reserve - 1,
			ErrAttempts,
		},
		{
			"a retry whose connection breaks is spent", &scripted{statuses: []int{broken}}, []Option{two}, 0,
			reserve - 1, ErrAttempts,
		},
		{
			"of several retries the last is given back", &scripted{statuses: []int{503, 503, 503, 200}}, nil, 0,
			reserve - 2, nil,
		},
		{
			"a retry that the deadline refuses takes nothing", &scripted{statuses: []int{503}, hint: "3600"}, nil, 0,
			reserve, ErrTooLate,
		},
		{
			"a retry that the attempts refuse takes nothing", &scripted{statuses: []int{503}}, []Option{one}, 0,
			reserve, ErrAttempts,
		},
		{
			"a retry without a key takes nothing", &scripted{statuses: []int{503}}, []Option{WithKeys(nil)}, 0, reserve,
			ErrKeyless,
		},
		{
			"a retry that is cancelled in its wait is given back",
			&scripted{statuses: []int{503}, hint: "5"}, nil, time.Second, reserve, context.Canceled,
		},
		{
			"a retry that is cancelled under way is given back",
			&scripted{statuses: []int{503, hang}}, nil, 5 * time.Second, reserve, context.Canceled,
		},
		{
			"a retry that the breaker stops is given back",
			&scripted{statuses: []int{503}}, []Option{WithBreaker(refuseAfter{1, refusal, new(int)})}, 0, reserve,
			refusal,
		},
		{
			"a retry that the limiter stops is given back",
			&scripted{statuses: []int{503}}, []Option{WithLimiter(limitAfter{1, new(int)})}, 0, reserve, ErrLimited,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := open(t,
					append(c.options, WithTransport(c.rt), WithBudget(limit.Budget{Reserve: reserve, Ratio: 1e-9}))...)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.cancel != 0 {
					time.AfterFunc(c.cancel, cancel)
				}
				if err := send(ctx, t, client); c.err == nil {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, c.err)
				}
				require.Equal(t, c.want, budgetLeft(client.buckets, 2*reserve))
			})
		})
	}
}

func TestASpentBudgetEndsTheCallAndSaysWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := &scripted{statuses: []int{503}}
		client := open(t, WithTransport(rt), WithBudget(limit.Budget{Reserve: 2, Ratio: 1e-9}),
			WithRetry(RetryPolicy{Jitter: ConstantDelay}))
		err := send(t.Context(), t, client)
		require.ErrorIs(t, err, ErrBudget)
		require.EqualValues(t, 3, rt.sent.Load(), "the first attempt and two retries")
		e, ok := errors.AsType[*Error](err)
		require.True(t, ok)
		require.Equal(t, time.Now().Add(100*ms), e.RetryAt)

		require.ErrorIs(t, send(t.Context(), t, client), ErrBudget)
		require.EqualValues(t, 4, rt.sent.Load(), "a first attempt is never refused")
	})
}

// A hint of zero is no licence to hammer: the schedule is the lower bound of every wait.
func TestAHintIsNoShorterThanTheSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		rt := &scripted{statuses: []int{503, 503, 200}, hint: "0"}
		require.NoError(t,
			send(t.Context(), t, open(t, WithTransport(rt), WithRetry(RetryPolicy{Jitter: ConstantDelay}))))
		require.Equal(t, 200*ms, time.Since(start))
	})
}

// The policy's schedule goes by the attempts made and by the wait before, and the last attempt has no wait.
func TestTheScheduleGoesByTheAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type drawn struct {
			n    int
			prev time.Duration
		}
		var got []drawn
		policy := RetryPolicy{MaxAttempts: 4,
			Jitter: func(n int, prev time.Duration, p RetryPolicy, random float64) time.Duration {
				require.True(t, random >= 0 && random < 1)
				require.Equal(t, 4, p.MaxAttempts)
				got = append(got, drawn{n, prev})
				return time.Duration(n+1) * 100 * ms
			}}
		start := time.Now()
		rt := &scripted{statuses: []int{503}}
		require.ErrorIs(t, send(t.Context(), t, open(t, WithTransport(rt), WithRetry(policy))), ErrAttempts)
		require.EqualValues(t, 4, rt.sent.Load())
		require.Equal(t, []drawn{{0, 0}, {1, 100 * ms}, {2, 200 * ms}, {3, 300 * ms}}, got)
		require.Equal(t, 600*ms, time.Since(start))
	})
}

func TestKeyOfAndReplayed(t *testing.T) {
	require.Empty(t, KeyOf(nil))
	require.Empty(t, KeyOf(&http.Response{}))
	require.Empty(t, KeyOf(&http.Response{Request: build(t, t.Context(), "POST", "k1")}), "another client's response")
	require.False(t, Replayed(nil))
	require.False(t, Replayed(&http.Response{}))
	require.True(t, Replayed(&http.Response{Header: http.Header{"Idempotent-Replayed": {"true"}}}),
		"a common marker counts")

	for _, c := range []struct {
		name     string
		method   string
		profile  Profile
		header   http.Header
		key      string
		replayed bool
	}{
		{"a first response", "POST", RedoProfile(), nil, "k1", false},
		{"a safe request has no key", "GET", RedoProfile(), nil, "", false},
		{"a common marker", "POST", RedoProfile(), http.Header{"Idempotent-Replayed": {"true"}}, "k1", true},
		{
			"the profile's own marker", "POST", Profile{ReplayMarkers: []string{"X-Acme-Replay"}},
			http.Header{"X-Acme-Replay": {"true"}}, "k1", true,
		},
		{"another profile's marker", "POST", RedoProfile(), http.Header{"X-Acme-Replay": {"true"}}, "k1", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := open(t, WithProfile(c.profile), WithTransport(&scripted{statuses: []int{200}, header: c.header}))
			resp, err := client.Do(build(t, WithKey(t.Context(), "k1"), c.method))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, c.key, KeyOf(resp))
			require.Equal(t, c.replayed, Replayed(resp))
		})
	}
}
