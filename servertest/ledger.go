package servertest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// Entry is one effect of the service.
type Entry struct {
	// ID is the ledger's own: "rf_1" for the first effect, "rf_2" for the second, and so on.
	ID string
	// Key is the request's idempotency key without its quotes. It is empty if the request had none.
	Key string
	// Principal is the result of the function given to [Principal]. It is empty without that option.
	Principal string
	Method    string
	Path      string
	// PayloadHash is the SHA-256 of the request's body, in lower-case hexadecimal.
	PayloadHash string
	// Request is the number of the request that made the effect, as in [Request]. Two effects of one request come from
	// a duplicate delivery.
	Request int
	At      time.Time
}

// Ledger records the service's effects and, separately, the received requests. It remains usable after its
// server's Close. It is safe for concurrent use.
type Ledger struct {
	mu       sync.Mutex
	entries  []Entry
	requests []*Request
}

// AssertEffects fails the test unless the key had exactly n effects. The empty key counts the requests without
// one. It does not see the effects of other keys: if a client makes a second key for its operation, only Total shows
// the second effect.
func (l *Ledger) AssertEffects(t testing.TB, key string, n int) {
	t.Helper()
	if got := l.Effects(key); got != n {
		t.Errorf("servertest: key %q had %d effects, want %d\n%s", key, got, n, l.history(key))
	}
}

// Effects returns the number of effects of the key, under all principals.
func (l *Ledger) Effects(key string) int {
	key = bare(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, e := range l.entries {
		if e.Key == key {
			n++
		}
	}
	return n
}

// Total returns the number of all effects.
func (l *Ledger) Total() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

// Entries returns a copy of all effects, in the order in which they were made.
func (l *Ledger) Entries() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Entry(nil), l.entries...)
}

// Duplicates returns the keys that had more than one effect under the same principal, in the order of their first
// effect. It ignores methods and paths, because a client never uses one key for two operations. Requests without a
// key do not count as duplicates.
func (l *Ledger) Duplicates() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	type scoped struct{ principal, key string }
	effects := make(map[scoped]int)
	for _, e := range l.entries {
		effects[scoped{e.Principal, e.Key}]++
	}
	var keys []string
	listed := map[string]bool{"": true}
	for _, e := range l.entries {
		if effects[scoped{e.Principal, e.Key}] > 1 && !listed[e.Key] {
			listed[e.Key] = true
			keys = append(keys, e.Key)
		}
	}
	return keys
}

// Requests returns the number of received requests with the key. It counts requests with every result: served,
// refused, reset or resent by net/http itself. It does not count the second copy of a scripted duplicate delivery,
// which no client sent.
func (l *Ledger) Requests(key string) int {
	key = bare(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, r := range l.requests {
		if r.Key == key {
			n++
		}
	}
	return n
}

// history describes the requests and effects of a key, one line each.
func (l *Ledger) history(key string) string {
	key = bare(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	for _, r := range l.requests {
		if r.Key == key {
			fmt.Fprintf(&b, "\trequest %d: %s %s, step %q\n", r.Number, r.Method, r.Path, r.Step)
		}
	}
	for _, e := range l.entries {
		if e.Key == key {
			fmt.Fprintf(&b, "\teffect %s: by request %d\n", e.ID, e.Request)
		}
	}
	return b.String()
}

// record adds the effect that a request makes.
func (l *Ledger) record(r *Request, principal string) Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	sum := sha256.Sum256(r.Body)
	e := Entry{
		ID:          fmt.Sprintf("rf_%d", len(l.entries)+1),
		Key:         r.Key,
		Principal:   principal,
		Method:      r.Method,
		Path:        r.Path,
		PayloadHash: hex.EncodeToString(sum[:]),
		Request:     r.Number,
		At:          time.Now(),
	}
	l.entries = append(l.entries, e)
	return e
}

// ErrNoRequest is returned by [Effect] when its context does not come from a request to this package's server.
var ErrNoRequest = errors.New("servertest: the context does not come from a request to a servertest server")

// Effect records an effect in the server's ledger and returns its entry. A handler given to [Handler] calls it at
// the moment when its work is done. The context is that of the handler's request, or one derived from it.
func Effect(ctx context.Context) (Entry, error) {
	v := visitOf(ctx)
	if v == nil {
		return Entry{}, ErrNoRequest
	}
	x := v.x
	principal := ""
	if x.srv.principal != nil {
		principal = x.srv.principal(x.r)
	}
	return x.srv.ledger.record(x.request, principal), nil
}
