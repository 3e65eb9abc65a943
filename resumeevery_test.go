package redo_test

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

// leaveBehind leaves the operations pending, old enough to be resumed.
func leaveBehind(t *testing.T, st store.Store, names ...string) {
	t.Helper()
	client := connect(t, unused(), redo.WithStore(st), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}))
	for _, name := range names {
		fail(t, client, post(t, redo.WithOperation(t.Context(), name), "http://api.test/"+name, payment))
	}
	time.Sleep(time.Minute)
}

// A provider counts the requests per operation, with the time of each. The path is the operation's name.
type provider struct {
	mu      sync.Mutex
	status  int
	takes   time.Duration
	start   time.Time
	came    map[string][]time.Duration
	running map[string]int // under way now
	all     int
	most    int // at the same time, of all
	mostOf  int // of one operation
}

func newProvider(status int, takes time.Duration) *provider {
	return &provider{status: status, takes: takes, start: time.Now(), came: map[string][]time.Duration{},
		running: map[string]int{}}
}

func (p *provider) RoundTrip(r *http.Request) (*http.Response, error) {
	_ = r.Body.Close()
	name := strings.TrimPrefix(r.URL.Path, "/")
	p.mu.Lock()
	p.came[name] = append(p.came[name], time.Since(p.start))
	p.running[name]++
	p.all++
	p.most, p.mostOf = max(p.most, p.all), max(p.mostOf, p.running[name])
	p.mu.Unlock()
	time.Sleep(p.takes)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running[name]--
	p.all--
	return answer(r, p.status, "rf_1"), nil
}

// resumptions are the reports of ResumeEvery about one operation. It is written without a lock: report is called
// by one goroutine at a time.
type resumptions map[string][]error

func (r resumptions) report(op redo.Operation, err error) { r[op.Name] = append(r[op.Name], err) }

// resumeFor runs ResumeEvery of each client for d, and waits for all.
func resumeFor(t *testing.T, d, interval time.Duration, report func(redo.Operation, error), clients ...*redo.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var group sync.WaitGroup
	for _, client := range clients {
		group.Go(func() {
			if err := client.ResumeEvery(ctx, interval, report); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("it ended with %v", err)
			}
		})
	}
	group.Wait()
}

func resuming(t *testing.T, rt http.RoundTripper, st store.Store) *redo.Client {
	t.Helper()
	return connect(t, rt, redo.WithStore(st), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}))
}

// minutes are the attempts due in the first 250 minutes, with an interval of one: the wait doubles up to an hour.
func minutes() []time.Duration {
	var at []time.Duration
	for _, n := range []float64{0, 1, 3, 7, 15, 31, 63, 123, 183, 243} {
		at = append(at, time.Duration(n*float64(time.Minute)))
	}
	return at
}

func TestResumeEveryBacksOffPerOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := openStore(t)
		leaveBehind(t, st, "a")
		p, got := newProvider(503, 0), resumptions{}
		done := make(chan struct{})
		go func() {
			defer close(done)
			resumeFor(t, 250*time.Minute+time.Second, time.Minute, got.report, resuming(t, p, st))
		}()
		time.Sleep(9*time.Minute - time.Second)
		leaveBehind(t, st, "b") // ten minutes later, less the second in which it is looked for
		<-done
		require.Equal(t, minutes(), p.came["a"])
		require.Len(t, got["a"], len(minutes()))
		for _, err := range got["a"] {
			require.Equal(t, 503, failure(t, err).StatusCode)
		}
		require.NotEmpty(t, p.came["b"])
		first := p.came["b"][0]
		require.Equal(t, 10*time.Minute, first)
		require.Equal(t, []time.Duration{first, first + time.Minute, first + 3*time.Minute}, p.came["b"][:3],
			"each has a separate backoff")
	})
}

func TestResumeEveryOfTwoProcessesTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := openStore(t)
		leaveBehind(t, st, "a", "b", "c")
		p := newProvider(503, 0)
		resumeFor(t, 250*time.Minute+time.Second, time.Minute, nil, resuming(t, p, st), resuming(t, p, st))
		for _, name := range []string{"a", "b", "c"} {
			require.Equal(t, minutes(), p.came[name], "as often as by one process")
		}
	})
}

func TestResumeEveryOfTwoProcessesNeverResumesAnOperationTwiceAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := openStore(t)
		leaveBehind(t, st, "a", "b")
		p := newProvider(503, 8*time.Second) // much longer than the interval
		resumeFor(t, 10*time.Minute, time.Second, nil, resuming(t, p, st), resuming(t, p, st))
		require.Equal(t, 1, p.mostOf)
		require.Equal(t, 2, p.most, "two operations are resumed at the same time")
	})
}

func TestResumeEveryResumesAtMostFourAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := openStore(t)
		names := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
		leaveBehind(t, st, names...)
		p, got := newProvider(201, time.Second), resumptions{}
		client := resuming(t, p, st)
		resumeFor(t, time.Hour, time.Minute, got.report, client)
		require.Equal(t, 4, p.most)
		for rec := range st.Pending(t.Context(), "resume:redo") {
			require.Fail(t, "a success leaves no turn in the store", "%v", rec.ID)
		}
		for i, name := range names {
			require.Equal(t, []time.Duration{time.Duration(i/4) * time.Second}, p.came[name], "oldest first")
			require.Equal(t, []error{nil}, got[name], "each is reported once")
		}
		require.Empty(t, pending(t, client))
	})
}

func TestResumeEverySkipsYoungOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := openStore(t)
		p := newProvider(201, 0)
		client := connect(t, p, redo.WithStore(st),
			redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1, MaxElapsed: 90 * time.Second}))
		leaveBehind(t, st, "a") // a minute old
		resumeFor(t, 2*time.Minute, 10*time.Second, nil, client)
		require.Equal(t, []time.Duration{90 * time.Second}, p.came["a"], "as soon as its own call must have ended")
	})
}

// An old operation is called again by another process: it is that call which may still run.
func TestResumeEveryCountsFromTheLastCall(t *testing.T) {
	for _, c := range []struct {
		name  string
		st    func(store.Store) store.Store
		first time.Duration // of the resumed requests
	}{
		{"of any process", func(st store.Store) store.Store { return st }, 90 * time.Second},
		{
			"or from the first one, if the store keeps no owners",
			func(st store.Store) store.Store { return ownerless{st.(*memstore.Store)} }, 0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := c.st(openStore(t))
				leaveBehind(t, st, "a")
				time.Sleep(time.Hour)
				other := connect(t, newProvider(503, 0), redo.WithStore(st),
					redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}))
				fail(t, other, post(t, redo.WithOperation(t.Context(), "a"), "http://api.test/a", payment))

				p := newProvider(201, 0)
				client := connect(t, p, redo.WithStore(st),
					redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1, MaxElapsed: 90 * time.Second}))
				resumeFor(t, 2*time.Minute, 10*time.Second, nil, client)
				require.Equal(t, []time.Duration{c.first}, p.came["a"])
			})
		})
	}
}

// An ownerless store drops the owner of each claim.
type ownerless struct{ *memstore.Store }

func (s ownerless) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	c.Owner = ""
	return s.Store.Reserve(ctx, c)
}

func TestResumeEveryLeavesTheCallsOfItsOwnClientAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := openStore(t)
		leaveBehind(t, st, "a")
		p, got := newProvider(201, 5*time.Second), resumptions{}
		client := resuming(t, p, st)
		done := make(chan struct{})
		go func() {
			defer close(done)
			succeed(t, client, post(t, redo.WithOperation(t.Context(), "a"), "http://api.test/a", payment))
		}()
		synctest.Wait()
		resumeFor(t, time.Minute, 2*time.Second, got.report, client)
		<-done
		require.Empty(t, got)
		require.Len(t, p.came["a"], 1)
	})
}

func TestResumeEveryReportsDamagedRecordsAndResumesTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := openStore(t)
		leaveBehind(t, st, "a", "b", "c")
		require.NoError(t, st.Extend(t.Context(), record(t, st, "b").Lease(), 0, []byte("garbage")))
		p, got := newProvider(201, 0), resumptions{}
		resumeFor(t, 90*time.Second, time.Minute, got.report, resuming(t, p, st))
		require.Equal(t, []error{nil}, got["a"])
		require.Equal(t, []error{nil}, got["c"])
		require.Len(t, got["b"], 2, "in each round")
		require.ErrorContains(t, got["b"][0], `"b"`)
		require.Empty(t, p.came["b"])
	})
}

func TestResumeEveryReportsAListingThatFailsAndLooksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &flakyLister{Store: openStore(t)}
		leaveBehind(t, st, "a")
		st.fails = 2
		p, got := newProvider(201, 0), resumptions{}
		resumeFor(t, 5*time.Minute, time.Minute, got.report, resuming(t, p, st))
		require.Len(t, got[""], 2)
		require.ErrorIs(t, got[""][0], store.ErrUnavailable)
		require.Equal(t, []time.Duration{2 * time.Minute}, p.came["a"])
	})
}

// A flakyLister fails as many listings as fails counts.
type flakyLister struct {
	*memstore.Store
	fails int
}

func (s *flakyLister) Pending(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
	if s.fails--; s.fails >= 0 {
		return func(yield func(store.Record, error) bool) { yield(store.Record{}, store.ErrUnavailable) }
	}
	return s.Store.Pending(ctx, scope)
}

func TestResumeEveryAsksTheProbeAboutWhatComesTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := openStore(t)
		leaveBehind(t, st, "a")
		time.Sleep(24 * time.Hour)
		p, got := newProvider(201, 0), resumptions{}
		asked := &probe{finding: redo.Finding{Effect: redo.Applied, Response: found(201, "rf_1"), Evidence: "e"}}
		client := connect(t, p, redo.WithStore(st), redo.WithProbe(asked.ask))
		resumeFor(t, time.Hour, time.Minute, got.report, client)
		require.Equal(t, resumptions{"a": {nil}}, got)
		require.Len(t, asked.asked, 1)
		require.Empty(t, p.came, "nothing was sent")
	})
}

func TestResumeEveryEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			takes time.Duration
			after time.Duration
		}{"between two rounds": {0, 90 * time.Second}, "during a round": {time.Hour, time.Second}, "at once": {0, 0}} {
			st := openStore(t)
			leaveBehind(t, st, "a", "b", "c", "d", "e", "f")
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(c.after, cancel)
			if c.after == 0 {
				cancel()
			}
			client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
				if c.takes == 0 {
					return answer(r, 503, ""), nil
				}
				<-r.Context().Done()
				return nil, r.Context().Err()
			}), redo.WithStore(st), redo.WithRetry(redo.RetryPolicy{MaxElapsed: time.Minute, MaxAttempts: 1}))
			start := time.Now()
			require.Equal(t, context.Canceled, client.ResumeEvery(ctx, time.Minute, nil), name)
			require.Equal(t, c.after, time.Since(start), name)
			synctest.Wait()
		}
	})
}

func TestResumeEveryWaitsForWhatItResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := openStore(t)
		leaveBehind(t, st, "a", "b", "c", "d", "e", "f")
		p, got := newProvider(201, 5*time.Second), resumptions{} // it ignores the context
		start := time.Now()
		resumeFor(t, time.Second, time.Minute, got.report, resuming(t, p, st))
		require.Equal(t, 5*time.Second, time.Since(start))
		require.Len(t, got, 4, "those under way are reported, and no others are begun")
		require.Len(t, p.came, 4)
	})
}

func TestResumeEveryRefusesWhatItCannotDo(t *testing.T) {
	st := openStore(t)
	good := connect(t, unused(), redo.WithStore(st))
	for name, c := range map[string]struct {
		client   *redo.Client
		interval time.Duration
		err      string
	}{
		"no interval":         {good, 0, "0s, it must be positive"},
		"a negative interval": {good, -time.Second, "-1s, it must be positive"},
		"no store":            {connect(t, unused()), time.Second, "use WithStore"},
		"a long scope": {
			connect(t, unused(), redo.WithStore(st), redo.WithScope(strings.Repeat("s", store.MaxScope))), time.Second,
			"the scope has",
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, c.client.ResumeEvery(t.Context(), c.interval, nil), c.err)
		})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, context.Canceled, good.ResumeEvery(ended, time.Nanosecond, nil), "the twin")
}

// A server's hint holds for every process, and the operation is due again when its key has become too old.
func TestResumeEveryKeepsTheServersHint(t *testing.T) {
	for hint, want := range map[string][]time.Duration{
		"7200":   {0, 2 * time.Hour, 4 * time.Hour},
		"864000": {0},
		"60":     minutes()[:8],
	} {
		t.Run(hint, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := openStore(t)
				leaveBehind(t, st, "a")
				p, got := newProvider(503, 0), resumptions{}
				busy := tripper(func(r *http.Request) (*http.Response, error) {
					resp, err := p.RoundTrip(r)
					resp.Header.Set("Retry-After", hint)
					return resp, err
				})
				resumeFor(t, 5*time.Hour/2, time.Minute, got.report, resuming(t, busy, st))
				start := time.Now()
				resumeFor(t, 5*time.Hour/2, time.Minute, func(redo.Operation, error) {}, resuming(t, busy, st))
				require.Equal(t, want, p.came["a"][:len(want)])
				if hint == "864000" {
					require.Len(t, p.came["a"], 1)
					resumeFor(t, 24*time.Hour+time.Second-time.Since(start), time.Minute, got.report, resuming(t, busy, st))
					require.ErrorIs(t, got["a"][len(got["a"])-1], taxonomy.KeyExpired)
				}
			})
		})
	}
}

// Without its turn nothing is sent. Without the server's hint another process may resume the operation too early.
func TestResumeEveryReportsATurnThatItCouldNotKeep(t *testing.T) {
	for name, c := range map[string]struct {
		taken bool
		sent  int
		err   string
	}{
		"it is not taken":      {false, 0, "unavailable"},
		"it is taken too soon": {true, 1, "keeping the time of the next attempt"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mem, sent, got := openStore(t), 0, resumptions{}
				leaveBehind(t, mem, "a")
				busy := tripper(func(r *http.Request) (*http.Response, error) {
					sent++
					return answer(r, 503, "", "Retry-After", "7200"), nil
				})
				resumeFor(t, time.Second, time.Minute, got.report, resuming(t, busy, &turnless{mem, c.taken}))
				require.Len(t, got["a"], 1)
				require.ErrorIs(t, got["a"][0], store.ErrUnavailable)
				require.ErrorContains(t, got["a"][0], c.err)
				require.Equal(t, c.sent, sent)
			})
		})
	}
}

// A turnless store takes no turn, or postpones none that it has taken.
type turnless struct {
	*memstore.Store
	takes bool
}

func (s *turnless) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	if strings.HasPrefix(l.ID.Scope, "resume:") && (meta == nil || !s.takes) {
		return store.ErrUnavailable
	}
	return s.Store.Extend(ctx, l, d, meta)
}
