package sim

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/limit"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

// A trip is an http.RoundTripper.
type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// rewrite changes each request of apps and gateways.
func rewrite(f func(*http.Request)) func(*world, http.RoundTripper) http.RoundTripper {
	return func(_ *world, rt http.RoundTripper) http.RoundTripper {
		return trip(func(req *http.Request) (*http.Response, error) {
			req = req.Clone(req.Context())
			f(req)
			return rt.RoundTrip(req)
		})
	}
}

// reread changes each response.
func reread(f func(*http.Response)) func(*world, http.RoundTripper) http.RoundTripper {
	return func(_ *world, rt http.RoundTripper) http.RoundTripper {
		return trip(func(req *http.Request) (*http.Response, error) {
			resp, err := rt.RoundTrip(req)
			if err == nil {
				f(resp)
			}
			return resp, err
		})
	}
}

const keyHeader = "Idempotency-Key"

// attemptOf returns the number of the request in its call, from 0.
func attemptOf(req *http.Request) int {
	if c := stateOf(req.Context()); c != nil {
		return c.sends
	}
	return 0
}

func classify(f func(resp *http.Response, v taxonomy.Verdict) taxonomy.Verdict) func(plan) []redo.Option {
	return func(plan) []redo.Option {
		return []redo.Option{redo.WithClassifier(
			func(resp *http.Response, _ []byte, v taxonomy.Verdict) taxonomy.Verdict { return f(resp, v) })}
	}
}

// rough makes the network bad and the calls persistent.
func rough(p *plan) {
	p.apps, p.attempts, p.lostResponse, p.limited = max(2, p.apps), 4, 300, 150
	p.window = max(p.window, time.Minute)
}

// restarts makes apps with a store die often.
func restarts(p *plan) {
	rough(p)
	p.identity, p.kills, p.servers, p.relays, p.ops, p.replicas = int(byStore), 12, 1, 0, 6, 1
	p.window = 30 * time.Second
}

// clientDefects are in clients and gateways.
var clientDefects = []defect{
	{
		name: "a key per attempt", breaks: []rule{stableKey}, plan: rough,
		transport: rewrite(func(req *http.Request) {
			req.Header.Set(keyHeader, req.Header.Get(keyHeader)+"-"+strconv.Itoa(attemptOf(req)))
		}),
	},
	{
		name: "a proxy drops the key of a retry, and the server requires none", breaks: []rule{stableKey, oneEffect},
		plan: rough, keyless: true,
		transport: rewrite(func(req *http.Request) {
			if attemptOf(req) > 0 {
				req.Header.Del(keyHeader)
			}
		}),
	},
	{
		name: "Retry-After is ignored", breaks: []rule{honoursHint}, plan: rough,
		transport: reread(func(resp *http.Response) { resp.Header.Del("Retry-After") }),
	},
	{
		name: "a 422 is retried", breaks: []rule{staysRefused}, plan: rough,
		client: classify(func(resp *http.Response, v taxonomy.Verdict) taxonomy.Verdict {
			if resp.StatusCode == http.StatusUnprocessableEntity {
				return taxonomy.Verdict{Code: taxonomy.Unavailable, Class: taxonomy.ClassTransient}
			}
			return v
		}),
	},
	{
		name: "the body is not rewound", breaks: []rule{sameBody}, plan: rough,
		transport: rewrite(func(req *http.Request) {
			if attemptOf(req) > 0 {
				req.Body, req.ContentLength = http.NoBody, 0
			}
		}),
	},
	{
		name: "the body is sent from where the last attempt stopped", breaks: []rule{sameBody}, plan: rough,
		transport: rewrite(func(req *http.Request) {
			if attemptOf(req) > 0 && req.Body != nil {
				b, _ := io.ReadAll(req.Body) // of a buffer
				req.Body = io.NopCloser(bytes.NewReader(b[len(b)/2:]))
			}
		}),
	},
	{
		name: "the budget is never refilled", breaks: []rule{budgetFills},
		plan: func(p *plan) {
			rough(p)
			p.reserve, p.ops, p.together, p.kills = 3, 40, 1, 0
			p.window = 10 * time.Minute
		},
		client: func(p plan) []redo.Option {
			return []redo.Option{redo.WithBudget(limit.Budget{Ratio: 1e-9, Reserve: p.reserve})}
		},
	},
	{
		name: "there is no budget", breaks: []rule{budgetSpent},
		plan: func(p *plan) {
			rough(p)
			p.reserve, p.kills, p.together = 1, 0, 1
		},
		client: func(plan) []redo.Option { return []redo.Option{redo.WithBudget(limit.Budget{Unlimited: true})} },
	},
	{
		name: "two layers retry", breaks: []rule{honoursHint, budgetSpent}, plan: rough,
		transport: func(_ *world, rt http.RoundTripper) http.RoundTripper {
			return trip(func(req *http.Request) (*http.Response, error) {
				b, _ := io.ReadAll(req.Body) // of a buffer
				for n := 0; ; n++ {
					req.Body = io.NopCloser(bytes.NewReader(b))
					resp, err := rt.RoundTrip(req)
					if n == 3 || err == nil && resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests {
						return resp, err
					}
				}
			})
		},
	},
	{
		name: "keys are cut off", breaks: []rule{rightEnd, ownResponse, stableKey, sameResponse, mismatch, settles},
		plan:      func(p *plan) { p.identity, p.ops = int(byTheCall), 4 },
		transport: rewrite(func(req *http.Request) { req.Header.Set(keyHeader, req.Header.Get(keyHeader)[:5]) }),
	},
	{
		name: "a 503 counts as not applied", breaks: []rule{notApplied},
		plan: func(p *plan) {
			rough(p)
			p.mode, p.outages, p.attempts, p.ops, p.relays, p.lostResponse = recovering, 12, 1, 6, 0, 0
			p.work, p.window, p.servers = 6*time.Second, 2*time.Minute, 1
		},
		client: classify(func(resp *http.Response, v taxonomy.Verdict) taxonomy.Verdict {
			if resp.StatusCode == http.StatusServiceUnavailable {
				v.Effect = redo.NotApplied
			}
			return v
		}),
	},
	{
		name: "an error page is a success", breaks: []rule{ownResponse, ackedEffect}, plan: rough,
		transport: reread(func(resp *http.Response) {
			if resp.StatusCode >= 500 {
				resp.StatusCode = http.StatusOK
			}
		}),
	},
	{
		name: "the caller's deadline is taken for a refusal", breaks: []rule{notApplied},
		plan: func(p *plan) {
			rough(p)
			p.attempts = 1
		},
		transport: func(_ *world, rt http.RoundTripper) http.RoundTripper {
			return trip(func(req *http.Request) (*http.Response, error) {
				resp, err := rt.RoundTrip(req)
				if err == nil || req.Context().Err() != nil {
					return resp, err
				}
				h := http.Header{"Content-Type": {"text/plain"}} // a proxy in front turns a reset into its own limit
				return &http.Response{
					StatusCode: http.StatusTooManyRequests, Header: h, Body: io.NopCloser(strings.NewReader("")),
					Request: req,
				}, nil
			})
		},
	},
	{
		name: "the store does not survive the process", breaks: []rule{stableKey}, plan: restarts,
		records: func(_ *world, p *process, _ backend) backend {
			st := memstore.New()
			p.world.atEnd(func(context.Context) { _ = st.Close() })
			return st
		},
	},
	{
		name: "the key is written after the first byte", breaks: []rule{stableKey}, plan: restarts,
		records: func(_ *world, _ *process, st backend) backend { return &writeBehind{backend: st} },
	},
	{
		name: "a lost mark is ignored", breaks: []rule{stableKey, notApplied, oneEffect},
		plan: func(p *plan) {
			p.identity, p.replicas, p.apps, p.phones, p.ops, p.together = int(byStore), 4, 3, 0, 12, 6
			p.refused, p.limited, p.lostResponse, p.attempts, p.servers, p.relays = 400, 300, 300, 1, 1, 0
			p.work = 50 * time.Millisecond
		},
		records: func(_ *world, _ *process, st backend) backend { return lostIgnored{st} },
	},
	{
		name: "a lost mark is ignored, and a claim makes its own key", breaks: []rule{stableKey, oneEffect},
		plan: func(p *plan) {
			p.identity, p.replicas, p.apps, p.phones, p.ops, p.together = int(byStore), 3, 3, 0, 6, 6
			p.servers, p.work = 1, 200*time.Millisecond
		},
		records: func(_ *world, _ *process, st backend) backend { return ownKeys{st} },
	},
	{
		name: "each gateway has its own secret", breaks: []rule{stableKey, oneEffect}, secrets: true,
		plan: func(p *plan) {
			rough(p)
			p.phones, p.gateways, p.ops, p.lostResponse = 2, 2, 6, 400
		},
	},
	{
		name: "a gateway makes a key of each request", breaks: []rule{stableKey, oneEffect},
		plan: func(p *plan) {
			rough(p)
			p.phones, p.gateways, p.ops, p.lostResponse = 2, 2, 6, 400
		},
		transport: func() func(*world, http.RoundTripper) http.RoundTripper {
			return func(w *world, rt http.RoundTripper) http.RoundTripper {
				return rewrite(func(req *http.Request) {
					if stateOf(req.Context()) == nil {
						key, _ := w.keys("upstream")(req.URL.Host) // it never fails
						req.Header.Set(keyHeader, key)
					}
				})(w, rt)
			}
		}(),
	},
}

// A writeBehind store acknowledges a claim first, and writes it with the outcome.
type writeBehind struct {
	backend
	mu    sync.Mutex
	early map[store.ID]*memstore.Store
}

func (s *writeBehind) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.early == nil {
		s.early = map[store.ID]*memstore.Store{}
	}
	if s.early[c.ID] == nil {
		s.early[c.ID] = memstore.New()
	}
	return s.early[c.ID].Reserve(ctx, c)
}

func (s *writeBehind) of(l store.Lease) *memstore.Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.early[l.ID]
}

func (s *writeBehind) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	return s.of(l).Extend(ctx, l, d, meta)
}

func (s *writeBehind) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	return s.of(l).Complete(ctx, l, o)
}

func (s *writeBehind) Forget(ctx context.Context, l store.Lease) error { return s.of(l).Forget(ctx, l) }

// A lostIgnored store hides from its caller that another owner has the record.
type lostIgnored struct{ backend }

func ignoreLost(err error) error {
	if err == store.ErrLost { //nolint:errorlint // a gate returns it bare
		return nil
	}
	return err
}

func (s lostIgnored) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	return ignoreLost(s.backend.Extend(ctx, l, d, meta))
}

func (s lostIgnored) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	return ignoreLost(s.backend.Complete(ctx, l, o))
}

func (s lostIgnored) Forget(ctx context.Context, l store.Lease) error {
	return ignoreLost(s.backend.Forget(ctx, l))
}

// An ownKeys store lets a claim that takes a record over write its own meta, which holds the key.
type ownKeys struct{ backend }

func (s ownKeys) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	g, err := s.backend.Reserve(ctx, c)
	if err == nil && g.Verdict == store.TakenOver {
		g.Verdict, g.Record.Meta = store.Acquired, c.Meta
		_ = s.backend.Extend(ctx, g.Lease, c.Lease, c.Meta)
	}
	return g, err
}
