package sdks

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"
)

// A provider is an API on a loopback socket that honours keys. A request whose key it knows gets the first response
// again. It plays a script of faults and counts the effects of each key. It is safe for concurrent use.
type provider struct {
	URL string
	sdk sdk
	// effected receives a value for each effect whose response is held back.
	effected chan struct{}

	mu      sync.Mutex
	script  []fault
	records map[string]record
	made    int // effects
	arrived []arrival
	aside   int // requests that are no operations, such as those for a token
}

// A record is the provider's record of a key.
type record struct {
	url, body   string
	contentType string
	response    string
	effects     int
}

// An arrival is one request as it came over the wire.
type arrival struct {
	key    string
	header http.Header
	body   string
	at     time.Time
}

// A fault handles one request. serve makes the effect, or finds it, and returns the response.
type fault func(p *provider, w http.ResponseWriter, r *http.Request, serve func() record)

// newProvider starts a provider of the SDK's API. The script's first fault is for the first request. Requests after the
// last fault are served.
func newProvider(t *testing.T, s sdk, script ...fault) *provider {
	t.Helper()
	p := &provider{sdk: s, script: script, records: map[string]record{}, effected: make(chan struct{}, 1)}
	srv := httptest.NewServer(p)
	p.URL = srv.URL
	t.Cleanup(srv.Close)
	return p
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	if p.sdk.aside != nil && p.sdk.aside(w, r) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.aside++
		return
	}
	if p.sdk.check != nil {
		if err := p.sdk.check(r, body); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
	}
	key := p.sdk.key(r, body)
	step := p.arrive(arrival{key, r.Header.Clone(), string(body), time.Now()})
	if !p.matches(key, r, body) {
		http.Error(w, "the key was used for another payload", http.StatusBadRequest)
		return
	}
	step(p, w, r, func() record { return p.effect(key, r, body) })
}

// arrive notes the request and returns its fault.
func (p *provider) arrive(a arrival) fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.arrived = append(p.arrived, a)
	if len(p.script) == 0 {
		return ok
	}
	step := p.script[0]
	p.script = p.script[1:]
	return step
}

// matches reports whether the key is new, or was used for the same payload.
func (p *provider) matches(key string, r *http.Request, body []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	known, found := p.records[key]
	return key == "" || !found || known.url == r.URL.String() && known.body == string(body)
}

// effect makes the effect of a new key, and returns the key's record. Each request without a key is an effect.
func (p *provider) effect(key string, r *http.Request, body []byte) record {
	p.mu.Lock()
	defer p.mu.Unlock()
	rec, found := p.records[key]
	if !found || key == "" {
		p.made++
		contentType, response := p.sdk.respond("obj_"+strconv.Itoa(p.made), r, body)
		rec = record{r.URL.String(), string(body), contentType, response, rec.effects + 1}
		p.records[key] = rec
	}
	return rec
}

// effects returns how many effects there were, over all keys.
func (p *provider) effects() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.made
}

// requests returns the operations' requests in the order of their arrival.
func (p *provider) requests() []arrival {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]arrival(nil), p.arrived...)
}

// keys returns the keys of the requests.
func (p *provider) keys() []string {
	var keys []string
	for _, a := range p.requests() {
		keys = append(keys, a.key)
	}
	return keys
}

// asides returns how many requests were no operations.
func (p *provider) asides() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.aside
}

// write sends the record's response. An event stream has no Content-Length.
func write(w http.ResponseWriter, rec record) {
	w.Header().Set("Content-Type", rec.contentType)
	if rec.streams() {
		_ = http.NewResponseController(w).Flush()
	}
	_, _ = io.WriteString(w, rec.response)
}

func (r record) streams() bool { return r.contentType == "text/event-stream" }

// ok serves the request.
func ok(_ *provider, w http.ResponseWriter, _ *http.Request, serve func() record) { write(w, serve()) }

// lost closes the connection after the effect, without a byte of the response.
func lost(_ *provider, _ http.ResponseWriter, _ *http.Request, serve func() record) {
	serve()
	panic(http.ErrAbortHandler)
}

// truncated sends half of the response after the effect.
func truncated(_ *provider, w http.ResponseWriter, _ *http.Request, serve func() record) {
	rec := serve()
	w.Header().Set("Content-Type", rec.contentType)
	if !rec.streams() {
		w.Header().Set("Content-Length", strconv.Itoa(len(rec.response)))
	}
	_, _ = io.Copy(w, bytes.NewReader([]byte(rec.response)[:len(rec.response)/2]))
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// refuse returns a fault that sends the status before the effect, with the header's name and value if they are given.
func refuse(status int, header ...string) fault {
	return func(_ *provider, w http.ResponseWriter, _ *http.Request, _ func() record) {
		if len(header) == 2 {
			w.Header().Set(header[0], header[1])
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"error":{"message":%q}}`, http.StatusText(status))
	}
}

// slow returns a fault that holds the response back for d after the effect.
func slow(d time.Duration) fault {
	return func(_ *provider, w http.ResponseWriter, r *http.Request, serve func() record) {
		rec := serve()
		select {
		case <-time.After(d):
			write(w, rec)
		case <-r.Context().Done():
		}
	}
}

// held reports the effect to provider.effected, and sends nothing for as long as the client lives.
func held(p *provider, _ http.ResponseWriter, r *http.Request, serve func() record) {
	serve()
	p.effected <- struct{}{}
	<-r.Context().Done()
	panic(http.ErrAbortHandler)
}
