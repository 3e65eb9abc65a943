package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

func mutants() []mutant {
	return slices.Concat(falsePasses, narrowMutants, controlMutants, keyMutants, replayMutants, mismatchMutants,
		slowMutants, faultMutants, takeoverMutants, payloadMutants, scopeMutants, browserMutants, lifetimeMutants)
}

// keyed is a front that changes requests that have a key.
func keyed(change func(w http.ResponseWriter, r *http.Request, key string,
	body []byte) bool) func(http.Handler) http.Handler {
	return rerouting(func(w http.ResponseWriter, r *http.Request, key string, body []byte) bool {
		return key != "" && change(w, r, key, body)
	})
}

// fresh counts, for keys that no record has.
var fresh atomic.Int64

func freshKey() string { return "fresh-" + strconv.FormatInt(fresh.Add(1), 10) }

func accountOf(body []byte) string {
	var o order
	_ = json.Unmarshal(body, &o)
	return o.Account
}

var controlMutants = []mutant{{
	name:  "nothing works",
	finds: []string{"ctl-baseline"},
	defect: func(l *lab) {
		l.app = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "down",
				http.StatusInternalServerError)
		})
	},
}, {
	name:  "one operation for each account",
	finds: []string{"ctl-distinct-keys"},
	also:  []string{"*"},
	defect: func(l *lab) {
		m := newMemory()
		l.front = keyed(func(_ http.ResponseWriter, r *http.Request, key string, body []byte) bool {
			if account := accountOf(body); account != "" && len(r.Header["Idempotency-Key"]) == 1 {
				r.Header.Set("Idempotency-Key", m.first(account, key))
			}
			return false
		})
	},
}, {
	name:  "the payload is the key",
	finds: []string{"key-equal-payload"},
	also:  []string{"key-no-truncate", "key-case"},
	defect: func(l *lab) {
		m := newMemory()
		l.front = keyed(func(_ http.ResponseWriter, r *http.Request, key string, body []byte) bool {
			if len(r.Header["Idempotency-Key"]) == 1 && len(body) > 0 {
				r.Header.Set("Idempotency-Key", m.first(r.URL.Path+string(body), key))
			}
			return false
		})
	},
}}

var keyMutants = []mutant{{
	name:  "a key is made for whoever has none",
	finds: []string{"key-missing"},
	defect: func(l *lab) {
		l.front = rerouting(func(_ http.ResponseWriter, r *http.Request, _ string, _ []byte) bool {
			if len(r.Header["Idempotency-Key"]) == 0 {
				r.Header.Set("Idempotency-Key", freshKey())
			}
			return false
		})
	},
}, {
	name:  "a missing key is refused in plain text",
	finds: []string{"key-missing"},
	defect: func(l *lab) {
		l.front = rerouting(func(w http.ResponseWriter, r *http.Request, _ string, _ []byte) bool {
			if len(r.Header["Idempotency-Key"]) > 0 || wire.SafeMethod(r.Method) {
				return false
			}
			http.Error(w, "no key", http.StatusBadRequest)
			return true
		})
	},
}, {
	name:  "equal requests without a key are one",
	finds: []string{"key-optional"},
	defect: func(l *lab) {
		l.optional = true
		l.front = rerouting(func(_ http.ResponseWriter, r *http.Request, _ string, body []byte) bool {
			if len(r.Header["Idempotency-Key"]) == 0 {
				r.Header.Set("Idempotency-Key", fmt.Sprintf("%x", len(body))+accountOf(body))
			}
			return false
		})
	},
}, {
	name:  "an empty key is a key",
	finds: []string{"key-empty"},
	defect: func(l *lab) {
		l.front = rerouting(func(_ http.ResponseWriter, r *http.Request, key string, _ []byte) bool {
			if len(r.Header["Idempotency-Key"]) == 1 && key == "" {
				r.Header.Set("Idempotency-Key", freshKey())
			}
			return false
		})
	},
}, {
	name:  "keys are shorter than published",
	finds: []string{"key-max-len"},
	defect: func(l *lab) {
		l.front = keyed(func(w http.ResponseWriter, _ *http.Request, key string, _ []byte) bool {
			return len(key) > 200 && refuse(w, http.StatusBadRequest, taxonomy.KeyMalformed)
		})
	},
}, {
	name:  "a key that is too long does not fit its column",
	finds: []string{"key-too-long"},
	defect: func(l *lab) {
		l.front = keyed(func(w http.ResponseWriter, _ *http.Request, key string, _ []byte) bool {
			return len(key) > 255 && refuse(w, http.StatusInternalServerError, taxonomy.Internal)
		})
	},
}, {
	name:  "the last byte of the longest key is lost",
	finds: []string{"key-no-truncate"},
	defect: func(l *lab) {
		l.front = keyed(func(_ http.ResponseWriter, r *http.Request, key string, _ []byte) bool {
			if len(key) == 255 {
				r.Header.Set("Idempotency-Key", key[:254])
			}
			return false
		})
	},
}, {
	name:   "the header is known in one spelling",
	finds:  []string{"key-header-case"},
	defect: func(l *lab) { l.wire = replacing("\r\nIDEMPOTENCY-KEY:", "\r\nX-DEMPOTENCY-KEY:") },
}, {
	name:  "quotation marks are part of the key",
	finds: []string{"key-both-forms"},
	defect: func(l *lab) {
		l.front = keyed(func(_ http.ResponseWriter, r *http.Request, key string, _ []byte) bool {
			if inner, ok := strings.CutPrefix(key, `"`); ok && strings.HasSuffix(inner, `"`) {
				r.Header.Set("Idempotency-Key", "quoted-"+strings.TrimSuffix(inner, `"`))
			}
			return false
		})
	},
}, {
	name:  "a lonely quotation mark is dropped",
	finds: []string{"key-malformed"},
	defect: func(l *lab) {
		l.front = keyed(func(_ http.ResponseWriter, r *http.Request, key string, _ []byte) bool {
			if strings.Count(key, `"`) == 1 {
				r.Header.Set("Idempotency-Key", strings.Trim(key, `"`))
			}
			return false
		})
	},
}, {
	name:  "a byte beyond ASCII breaks the database",
	finds: []string{"key-bad-bytes"},
	defect: func(l *lab) {
		l.front = keyed(func(w http.ResponseWriter, _ *http.Request, key string, _ []byte) bool {
			return strings.Contains(key, "\xE9") && refuse(w, http.StatusInternalServerError, taxonomy.Internal)
		})
	},
}, {
	name:   "a byte beyond ASCII is taken for a letter",
	finds:  []string{"key-bad-bytes"},
	defect: func(l *lab) { l.wire = replacing("\xE9", "e") },
}, {
	name:   "a control character is taken for a letter",
	finds:  []string{"key-control-bytes"},
	defect: func(l *lab) { l.wire = replacing("\x01", "a") },
}, {
	name:  "the first of two keys counts",
	finds: []string{"key-dup-header"},
	defect: func(l *lab) {
		l.front = keyed(func(_ http.ResponseWriter, r *http.Request, key string, _ []byte) bool {
			r.Header.Set("Idempotency-Key", key)
			return false
		})
	},
}, {
	name:   "white space is part of the key",
	finds:  []string{"key-whitespace"},
	defect: func(l *lab) { l.wire = replacing("\t", "x") },
}}

// onReplay is a front that changes replays.
func onReplay(change func(r *http.Request, a *httptest.ResponseRecorder)) func(l *lab) {
	return func(l *lab) {
		l.front = rewriting(func(r *http.Request, a *httptest.ResponseRecorder) {
			if isReplay(a) {
				change(r, a)
			}
		})
	}
}

var replayMutants = []mutant{{
	name:  "each retry has its effect, and the first response",
	finds: []string{"replay-effect", "conc-one-effect", "fault-lost-response", "late-replay"},
	also:  []string{"*"},
	defect: func(l *lab) {
		l.front = func(next http.Handler) http.Handler {
			return keyed(func(w http.ResponseWriter, r *http.Request, _ string, body []byte) bool {
				rec := newRecorder(w)
				next.ServeHTTP(rec, r)
				if isReplay(rec.ResponseRecorder) && rec.Code < 300 {
					l.effect(accountOf(body))
				}
				rec.flush()
				return true
			})(next)
		}
	},
}, {
	name:  "a replay is 200",
	finds: []string{"replay-status"},
	defect: onReplay(func(_ *http.Request, a *httptest.ResponseRecorder) {
		a.Code = map[int]int{201: 200}[a.Code] + a.Code*b2i(a.Code != 201)
	}),
}, {
	name:  "a replay is encoded anew",
	finds: []string{"replay-body"},
	defect: onReplay(func(_ *http.Request, a *httptest.ResponseRecorder) {
		if a.Code == http.StatusCreated {
			a.Body.WriteString(" ")
		}
	}),
}, {
	name:   "a replay has no Location",
	finds:  []string{"replay-headers"},
	defect: onReplay(func(_ *http.Request, a *httptest.ResponseRecorder) { a.Header().Del("Location") }),
}, {
	name:  "a replay joins lines of a header",
	finds: []string{"replay-cookie-date"},
	defect: onReplay(func(_ *http.Request, a *httptest.ResponseRecorder) {
		a.Header().Set("X-Part", strings.Join(a.Header()["X-Part"], ", "))
	}),
}, {
	name:  "a replay is not marked",
	finds: []string{"replay-marker"},
	defect: onReplay(func(_ *http.Request, a *httptest.ResponseRecorder) {
		a.Header().Del("Idempotent-Replayed")
		a.Header().Del("Idempotency-Status")
	}),
}, {
	name:  "first answers are marked as replays",
	finds: []string{"replay-marker"},
	defect: func(l *lab) {
		l.front = rewriting(func(r *http.Request, a *httptest.ResponseRecorder) {
			if !wire.SafeMethod(r.Method) {
				a.Header().Set("Idempotent-Replayed", "true")
			}
		})
	},
}, {
	name:  "an empty response is replayed as 200",
	finds: []string{"replay-204"},
	defect: onReplay(func(_ *http.Request, a *httptest.ResponseRecorder) {
		if a.Code == http.StatusNoContent {
			a.Code = http.StatusOK
		}
	}),
}, {
	name:  "a replay says that it is compressed",
	finds: []string{"replay-encoding"},
	defect: onReplay(func(r *http.Request, a *httptest.ResponseRecorder) {
		if r.Header.Get("Accept-Encoding") == "identity" {
			a.Header().Set("Content-Encoding", "gzip")
		}
	}),
}, {
	name:  "a refusal takes its key",
	finds: []string{"replay-4xx"},
	defect: onReplay(func(_ *http.Request, a *httptest.ResponseRecorder) {
		if a.Code == http.StatusBadRequest {
			a.Code = http.StatusConflict
		}
	}),
}, {
	name:  "the informational response is what is replayed",
	finds: []string{"replay-interim"},
	defect: func(l *lab) {
		l.front = func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Interim") == "" {
					next.ServeHTTP(w, r)
					return
				}
				rec := newRecorder(w)
				next.ServeHTTP(rec, r)
				if isReplay(rec.ResponseRecorder) {
					w.WriteHeader(http.StatusEarlyHints)
					panic(http.ErrAbortHandler)
				}
				rec.flush()
			})
		}
	},
}}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// soon waits for something that comes soon, and gives up quietly.
func soon(ctx context.Context, done <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return errors.New("not in time")
	}
}
