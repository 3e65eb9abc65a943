package conformance

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"syscall"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

// running is the slow requests that are being served, by key.
type running struct {
	mu   sync.Mutex
	keys map[string][]*http.Request
}

// begin notes a request and returns those that were running with the same key, and how to end it.
func (s *running) begin(r *http.Request, key string) (others []*http.Request, end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil {
		s.keys = map[string][]*http.Request{}
	}
	for _, other := range s.keys[key] {
		if other.Context().Err() == nil { // its client is still there
			others = append(others, other)
		}
	}
	s.keys[key] = append(s.keys[key], r)
	return others, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for i, other := range s.keys[key] {
			if other == r {
				s.keys[key] = append(s.keys[key][:i:i], s.keys[key][i+1:]...)
				break
			}
		}
	}
}

// whileRunning is a front for slow requests whose key has one running already.
func whileRunning(change func(rec recorder, next http.Handler, r *http.Request)) func(l *lab) {
	return func(l *lab) {
		var s running
		l.front = func(next http.Handler) http.Handler {
			return keyed(func(w http.ResponseWriter, r *http.Request, key string, _ []byte) bool {
				if r.Header.Get("X-Slow") == "" {
					return false
				}
				time.Sleep(slowness / 8) // by now the server knows that a client has gone
				others, end := s.begin(r, key)
				defer end()
				if len(others) == 0 {
					next.ServeHTTP(w, r)
					return true
				}
				rec := newRecorder(w)
				change(rec, next, r)
				rec.flush()
				return true
			})(next)
		}
	}
}

var slowMutants = []mutant{{
	name:  "more than six at once are too many to look up",
	finds: []string{"conc-one-effect"},
	also:  []string{"fault-5xx", "fault-crash", "expiry"}, // their retries race
	defect: func(l *lab) {
		m := newMemory()
		l.front = func(next http.Handler) http.Handler {
			return keyed(func(w http.ResponseWriter, r *http.Request, key string, _ []byte) bool {
				defer m.add(key, -1)
				if m.add(key, 1) > historyWorkers {
					r.Header.Set("Idempotency-Key", freshKey())
				}
				time.Sleep(20 * time.Millisecond) // the race is long enough to be met on any machine
				next.ServeHTTP(w, r)
				return true
			})(next)
		}
	},
}, {
	name:  "a duplicate in flight is told that it was accepted",
	finds: []string{"conc-inflight", "conc-one-effect"}, // fault-client-timeout's first client has gone
	defect: whileRunning(func(rec recorder, next http.Handler, r *http.Request) {
		next.ServeHTTP(rec, r)
		if isInFlight(rec.ResponseRecorder) {
			rec.Code = http.StatusAccepted
		}
	}),
}, {
	name:  "nobody is told when to come back",
	finds: []string{"conc-retry-after"},
	defect: whileRunning(func(rec recorder, next http.Handler, r *http.Request) {
		next.ServeHTTP(rec, r)
		rec.Header().Del("Retry-After")
	}),
}, {
	name:  "another payload in flight runs",
	finds: []string{"conc-mismatch"},
	also:  []string{"conc-mismatch-wins"},
	defect: whileRunning(func(rec recorder, next http.Handler, r *http.Request) {
		probe := newRecorder(discard{http.Header{}})
		body, again := reread(r)
		next.ServeHTTP(probe, body)
		if isMismatch(probe.ResponseRecorder) {
			again.Header.Set("Idempotency-Key", freshKey())
			next.ServeHTTP(rec, again)
			return
		}
		*rec.ResponseRecorder = *probe.ResponseRecorder
	}),
}, {
	name:  "in flight wins over a mismatch",
	finds: []string{"conc-mismatch-wins"},
	defect: whileRunning(func(rec recorder, next http.Handler, r *http.Request) {
		next.ServeHTTP(rec, r)
		if isMismatch(rec.ResponseRecorder) {
			clear(rec.Header())
			rec.Body.Reset()
			rec.Code = http.StatusConflict
			refuse(rec, http.StatusConflict, taxonomy.InFlight)
		}
	}),
}, {
	name:  "one slow request locks its account",
	finds: []string{"independent-keys"},
	defect: func(l *lab) {
		var mu sync.Mutex
		locked := map[string]chan struct{}{}
		l.front = func(next http.Handler) http.Handler {
			return keyed(func(w http.ResponseWriter, r *http.Request, _ string, body []byte) bool {
				account := accountOf(body)
				mu.Lock()
				done := locked[account]
				if r.Header.Get("X-Slow") != "" && done == nil {
					mine := make(chan struct{})
					locked[account] = mine
					defer func() {
						mu.Lock()
						delete(locked, account)
						mu.Unlock()
						close(mine)
					}()
				}
				mu.Unlock()
				if done != nil && r.Header.Get("X-Slow") == "" {
					<-done
					time.Sleep(50 * time.Millisecond) // the slow response is on its way
				}
				next.ServeHTTP(w, r)
				return true
			})(next)
		}
	},
}, {
	name:  "a key is in flight again after a mismatch and a few requests",
	finds: []string{"conc-history"},
	defect: func(l *lab) {
		m := newMemory()
		l.front = func(next http.Handler) http.Handler {
			return keyed(func(w http.ResponseWriter, r *http.Request, key string, _ []byte) bool {
				rec := newRecorder(w)
				next.ServeHTTP(rec, r)
				n := m.add(key, 1)
				if isMismatch(rec.ResponseRecorder) {
					m.put(key, "mismatch")
				}
				if m.get(key) != "" && n > 4 && isReplay(rec.ResponseRecorder) {
					return refuse(w, http.StatusConflict, taxonomy.InFlight)
				}
				rec.flush()
				return true
			})(next)
		}
	},
}}

var faultMutants = []mutant{{
	name:  "a reset connection rolls the record back",
	finds: []string{"fault-lost-response"},
	defect: func(l *lab) {
		m := newMemory()
		var mu sync.Mutex
		settled := map[string]chan struct{}{} // of each key's last request
		l.wire = func(c net.Conn) net.Conn { return &watchedConn{Conn: c} }
		l.front = func(next http.Handler) http.Handler {
			return keyed(func(w http.ResponseWriter, r *http.Request, key string, body []byte) bool {
				if r.URL.Path != "/orders" || accountOf(body) == "" {
					return false
				}
				mine := make(chan struct{})
				defer close(mine)
				mu.Lock()
				last := settled[key]
				settled[key] = mine
				mu.Unlock()
				if last != nil && r.Header.Get("X-Slow") == "" && r.Header.Get("X-Fault") == "" {
					_ = soon(r.Context(), last)
				}
				if other := m.get(key); other != "" {
					r.Header.Set("Idempotency-Key", other)
				}
				rec := newRecorder(w)
				next.ServeHTTP(rec, r)
				rec.flush() // with its length, so that the client has it whole
				_ = http.NewResponseController(w).Flush()
				_ = soon(r.Context(), r.Context().Done()) // the client reads, and closes
				if conn, ok := r.Context().Value(connKey{}).(*watchedConn); ok && conn.wasReset() {
					m.put(key, freshKey())
				}
				return true
			})(next)
		}
	},
}, {
	name:  "a client that goes away takes its record along",
	finds: []string{"fault-client-timeout"},
	defect: func(l *lab) {
		m := newMemory()
		l.front = func(next http.Handler) http.Handler {
			return keyed(func(w http.ResponseWriter, r *http.Request, key string, _ []byte) bool {
				if other := m.get(key); other != "" {
					r.Header.Set("Idempotency-Key", other)
				}
				next.ServeHTTP(w, r)
				if r.Header.Get("X-Slow") != "" && closed(r.Context()) {
					m.put(key, freshKey())
				}
				return true
			})(next)
		}
	},
}, {
	name:  "half a body is the payload",
	finds: []string{"fault-truncated-request"},
	defect: func(l *lab) {
		m := newMemory()
		l.front = func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				key := r.Header.Get("Idempotency-Key")
				if m.get(key) != "" {
					refuse(w, http.StatusConflict, taxonomy.PayloadMismatch)
					return
				}
				body := new(bytes.Buffer)
				if _, err := body.ReadFrom(r.Body); err != nil {
					m.put(key, "half")
					panic(http.ErrAbortHandler)
				}
				r.Body = nopCloser{body}
				next.ServeHTTP(w, r)
			})
		}
	},
}, {
	name:   "errors are kept",
	finds:  []string{"fault-5xx"},
	defect: func(l *lab) { l.options = append(l.options, keepServerErrors()) },
}, {
	name:  "errors are promised to be kept, and are not",
	finds: []string{"fault-5xx"},
	defect: func(l *lab) {
		kept := true
		l.describe = func(t *Target) { t.Fault.Replayed = &kept }
	},
}, {
	name:  "a rate limit is a result",
	finds: []string{"fault-429"},
	defect: func(l *lab) {
		m := newMemory()
		l.front = keyed(func(w http.ResponseWriter, r *http.Request, key string, _ []byte) bool {
			if r.Header.Get("X-Fault") == "429" {
				m.put(key, "limited")
			}
			return m.get(key) != "" && refuse(w, http.StatusTooManyRequests, taxonomy.RateLimited)
		})
	},
}, {
	name:  "the lock of a handler that died stays",
	finds: []string{"fault-crash"},
	defect: func(l *lab) {
		m := newMemory()
		l.front = keyed(func(w http.ResponseWriter, r *http.Request, key string, _ []byte) bool {
			if r.Header.Get("X-Fault") == "crash" {
				m.put(key, "locked")
				return false
			}
			return m.get(key) != "" && refuse(w, http.StatusConflict, taxonomy.InFlight)
		})
	},
}, {
	name:  "records are lost in a restart",
	finds: []string{"restart-durable"},
	also:  []string{"late-replay"},
	defect: func(l *lab) {
		l.reopen = func(store.Store) store.Store { return memstore.New() }
	},
}}

// payloadMutants include other parts of a request in the payload.
var payloadMutants = []mutant{{
	name:  "the client's name is part of the payload",
	finds: []string{"replay-other-headers"},
	defect: func(l *lab) {
		m := newMemory()
		l.front = keyed(func(w http.ResponseWriter, r *http.Request, key string, _ []byte) bool {
			who := r.Header.Get("User-Agent")
			return m.first(key, who) != who && refuse(w, http.StatusConflict, taxonomy.PayloadMismatch)
		})
	},
}, {
	name:  "the framing is part of the payload",
	finds: []string{"replay-chunked"},
	defect: func(l *lab) {
		l.front = keyed(func(w http.ResponseWriter, r *http.Request, _ string, _ []byte) bool {
			return len(r.TransferEncoding) > 0 && refuse(w, http.StatusConflict, taxonomy.PayloadMismatch)
		})
	},
}}

var scopeMutants = []mutant{{
	name:  "the same request of another principal is a retry",
	finds: []string{"scope-principal"},
	defect: func(l *lab) {
		m := newMemory()
		l.front = keyed(func(_ http.ResponseWriter, r *http.Request, key string, body []byte) bool {
			if r.URL.Path == "/orders" {
				r.Header.Set("Authorization", m.first(key+string(body), r.Header.Get("Authorization")))
			}
			return false
		})
	},
}, {
	name:  "another principal gets the first one's response, and replays have no Location",
	finds: []string{"scope-principal", "replay-headers"},
	defect: func(l *lab) {
		m := newMemory()
		shared := keyed(func(_ http.ResponseWriter, r *http.Request, key string, body []byte) bool {
			if r.URL.Path == "/orders" {
				r.Header.Set("Authorization", m.first(key+string(body), r.Header.Get("Authorization")))
			}
			return false
		})
		bare := rewriting(func(_ *http.Request, a *httptest.ResponseRecorder) {
			if isReplay(a) {
				a.Header().Del("Location")
			}
		})
		l.front = func(next http.Handler) http.Handler { return bare(shared(next)) }
	},
}, {
	name:  "a stranger is told that the key is taken",
	finds: []string{"scope-undetectable"},
	also:  []string{"cors-preflight"}, // a preflight has no credentials
	defect: func(l *lab) {
		m := newMemory()
		l.front = keyed(func(w http.ResponseWriter, r *http.Request, key string, body []byte) bool {
			who := r.Header.Get("Authorization")
			return m.first(key, who) != who && m.get(key+" body") != string(body) &&
				refuse(w, http.StatusConflict, taxonomy.PayloadMismatch) ||
				m.first(key+" body", string(body)) == "\x00"
		})
	},
}, {
	name:  "a stranger is told by a status that no profile has",
	finds: []string{"scope-undetectable"},
	also:  []string{"cors-preflight"}, // a preflight has no credentials
	defect: func(l *lab) {
		m := newMemory()
		l.front = keyed(func(w http.ResponseWriter, r *http.Request, key string, body []byte) bool {
			who := r.Header.Get("Authorization")
			return m.first(key, who) != who && m.get(key+" body") != string(body) &&
				refuse(w, http.StatusExpectationFailed, taxonomy.PayloadMismatch) ||
				m.first(key+" body", string(body)) == "\x00"
		})
	},
}, {
	name:  "a GET with a key is recorded",
	finds: []string{"method-get-uncached"},
	defect: func(l *lab) {
		l.front = replayingFirst(func(r *http.Request) bool { return r.Method == http.MethodGet })
	},
}, {
	name:  "a GET takes its key",
	finds: []string{"method-get-reserves-nothing"},
	defect: func(l *lab) {
		m := newMemory()
		l.front = keyed(func(w http.ResponseWriter, r *http.Request, key string, _ []byte) bool {
			return m.first(key, r.Method) == http.MethodGet && r.Method != http.MethodGet &&
				refuse(w, http.StatusConflict, taxonomy.PayloadMismatch)
		})
	},
}}

// A watchedConn remembers whether it was reset.
type watchedConn struct {
	net.Conn
	mu    sync.Mutex
	reset bool
}

func (c *watchedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if errors.Is(err, syscall.ECONNRESET) {
		c.mu.Lock()
		c.reset = true
		c.mu.Unlock()
	}
	return n, err
}

func (c *watchedConn) wasReset() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reset
}
