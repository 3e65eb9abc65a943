package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// A peer is a server that keeps the rules and shares no code with redo. It has its own error format, sends none of
// redo's headers, and has settings that the draft leaves open. The zero settings are the draft's statuses.
type peer struct {
	header    string // default Idempotency-Key
	optional  bool   // requests without a key run
	quoted    bool   // keys must be quoted strings
	uuid      bool   // keys must be UUIDs
	perRoute  bool   // a key belongs to its method and path
	waits     bool   // duplicates wait for the first request
	racy      bool   // a key is reserved only when its handler has ended, which is wrong
	marked    bool   // replays have Idempotent-Replayed
	keeps5xx  bool   // a 5xx is kept
	any       bool   // payloads are not compared
	letters   bool   // keys have letters, digits and hyphens
	parts     bool   // the item alone is compared, as the draft allows it: "selected elements"
	late      bool   // the payload is compared after the key is known to be free
	replayed  int    // status of a replay, default the first one's
	mismatch  int    // default 422
	inFlight  int    // default 409
	problems  bool   // errors are problem documents
	retention time.Duration
	allExpire bool   // all keys are kept for that time, not only those of /short
	forgets   string // a path whose keys are forgotten, which is wrong

	// respond writes the response of an effect. The default is an order in JSON.
	respond func(w http.ResponseWriter, r *http.Request, o order, id string)
	// account returns the account whose effects grow, "" for none. The default is the one of the order.
	account func(r *http.Request, o order) string
	// delay is the time between a response and its effect.
	delay time.Duration

	mu      sync.Mutex
	records map[string]*peerRecord
	effects map[string]int
	orders  int
	pending sync.WaitGroup
}

// peerRecord is a peer's record of a key.
type peerRecord struct {
	payload  string
	done     chan struct{} // closed when response is there
	response *httptest.ResponseRecorder
	expires  time.Time
}

func newPeer() *peer {
	return &peer{records: map[string]*peerRecord{}, effects: map[string]int{}, retention: shortRetention,
		problems: true}
}

func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // half a request is none
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	switch r.Method {
	case http.MethodGet, "QUERY":
		p.count(w, r)
		return
	case http.MethodOptions:
		w.Header().Set("Allow", "GET, POST, PATCH, OPTIONS, QUERY")
		return
	}
	key, problem := p.key(r)
	switch {
	case problem != "":
		p.refuse(w, http.StatusBadRequest, problem)
	case key == "" && p.optional:
		p.shop(w, r)
	case key == "":
		p.refuse(w, http.StatusBadRequest, "idempotency_key_missing")
	default:
		p.once(w, r, key, string(body))
	}
}

// key returns the request's key, or its fault.
func (p *peer) key(r *http.Request) (key, problem string) {
	lines := r.Header.Values(p.name())
	if len(lines) == 0 {
		return "", ""
	}
	key = strings.Trim(lines[0], " \t")
	for _, other := range lines[1:] {
		if other != lines[0] {
			return "", "two_idempotency_keys"
		}
	}
	if p.quoted {
		if len(key) < 3 || key[0] != '"' || key[len(key)-1] != '"' {
			return "", "malformed_idempotency_key"
		}
		key = key[1 : len(key)-1]
	}
	bad := strings.ContainsFunc(key, func(c rune) bool { return c < '!' || c > '~' })
	bad = bad || p.letters && strings.ContainsAny(key, "_.%")
	if key == "" || len(key) > 255 || bad || p.uuid && len(key) != minKey {
		return "", "malformed_idempotency_key"
	}
	return key, ""
}

func (p *peer) name() string {
	if p.header == "" {
		return "Idempotency-Key"
	}
	return p.header
}

// once runs the first request of a key, and replays its response to the others.
func (p *peer) once(w http.ResponseWriter, r *http.Request, key, body string) {
	payload := r.Method + " " + r.URL.Path + " " + body
	if o := (order{}); p.parts && r.URL.RawQuery == "" && json.Unmarshal([]byte(body), &o) == nil {
		payload = r.Method + " " + r.URL.Path + " " + o.Item
	}
	id := principal(r) + " " + key
	if p.perRoute {
		id += " " + r.Method + " " + r.URL.Path
	}
	p.mu.Lock()
	rec := p.records[id]
	if p.forgets == r.URL.Path {
		rec = nil
	}
	if rec != nil && !rec.expires.IsZero() && time.Now().After(rec.expires) {
		rec = nil
	}
	if rec == nil {
		rec = &peerRecord{payload: payload, done: make(chan struct{})}
		if !p.racy {
			p.records[id] = rec
		}
		p.mu.Unlock()
		p.first(w, r, id, rec)
		return
	}
	p.mu.Unlock()
	running := true
	select {
	case <-rec.done:
		running = false
	default:
	}
	switch {
	case payload != rec.payload && !p.any && !(p.late && running):
		p.refuse(w, or(p.mismatch, http.StatusUnprocessableEntity), "idempotency_key_reused")
		return
	case running && !p.waits:
		w.Header().Set("Retry-After", "1")
		p.refuse(w, or(p.inFlight, http.StatusConflict), "idempotency_key_in_use")
		return
	case running:
		<-rec.done
		p.once(w, r, key, body) // the first request may have left no record
		return
	}
	copyHeader(w.Header(), rec.response.Header())
	status := rec.response.Code
	if p.replayed != 0 && status == http.StatusCreated {
		status = p.replayed
	}
	if p.marked {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	w.WriteHeader(status)
	_, _ = w.Write(rec.response.Body.Bytes())
}

// used reports whether the key of a request was used for an order.
func (p *peer) used(r *http.Request) bool {
	key, _ := p.key(r)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.records[principal(r)+" "+key+" POST /orders"] != nil
}

// add adds an effect of the account.
func (p *peer) add(account string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.effects[account]++
}

// first runs the handler and keeps its response, unless a retry is to run again.
func (p *peer) first(w http.ResponseWriter, r *http.Request, id string, rec *peerRecord) {
	out := httptest.NewRecorder()
	kept := false
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !kept {
			delete(p.records, id)
		} else if p.racy {
			p.records[id] = rec
		}
		if p.allExpire || r.URL.Path == "/short" {
			rec.expires = time.Now().Add(p.retention)
		}
		close(rec.done)
	}()
	p.shop(out, r)
	rec.response = out
	kept = (out.Code < 500 || p.keeps5xx) && out.Code != http.StatusTooManyRequests
	copyHeader(w.Header(), out.Header())
	w.WriteHeader(out.Code)
	_, _ = w.Write(out.Body.Bytes())
}

// shop makes one effect for each order.
func (p *peer) shop(w http.ResponseWriter, r *http.Request) {
	var o order
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil || o.Amount < 1 {
		p.refuse(w, http.StatusBadRequest, "no_amount")
		return
	}
	switch r.Header.Get("X-Fault") {
	case "500":
		p.refuse(w, http.StatusInternalServerError, "bank_down")
		return
	case "429":
		w.Header().Set("Retry-After", "0")
		p.refuse(w, http.StatusTooManyRequests, "too_many")
		return
	case "crash":
		panic(http.ErrAbortHandler)
	}
	if d, err := time.ParseDuration(r.Header.Get("X-Slow")); err == nil {
		time.Sleep(d)
	}
	account := o.Account
	if p.account != nil {
		account = p.account(r, o)
	}
	p.mu.Lock()
	p.orders++
	id := fmt.Sprintf("%s_%d", strings.Trim(r.URL.Path, "/"), p.orders)
	p.mu.Unlock()
	effect := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.effects[account]++
	}
	if p.delay == 0 {
		effect()
	} else {
		p.pending.Add(1)
		time.AfterFunc(p.delay, func() { defer p.pending.Done(); effect() })
	}
	if p.respond != nil {
		p.respond(w, r, o, id)
		return
	}
	peerOrder(w, r, o, id)
}

// peerOrder is the usual response.
func peerOrder(w http.ResponseWriter, r *http.Request, o order, id string) {
	h := w.Header()
	switch r.URL.Path {
	case "/empty":
		w.WriteHeader(http.StatusNoContent)
		return
	case "/large":
		_, _ = io.WriteString(w, strings.Repeat("0123456789abcdef", 1<<16))
		return
	}
	h.Set("Content-Type", "application/json")
	h.Set("Location", r.URL.Path+"/"+id)
	h.Set("Link", `</docs>; rel="help"`)
	h.Set("X-Request-Id", id+freshKey())
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"id":%q,"item":%q}`, id, o.Item)
}

func (p *peer) count(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(w, `{"count":%d}`, p.effects[r.URL.Query().Get("account")])
}

func (p *peer) refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/json")
	if p.problems {
		w.Header().Set("Content-Type", "application/problem+json")
	}
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":{"code":%q},"title":%q,"status":%d}`, code, code, status)
}

func or(status, otherwise int) int {
	if status == 0 {
		return otherwise
	}
	return status
}

// A benign is a server that is right and differs from redo's. It conforms, and warns is all that it is warned of.
type benign struct {
	name   string
	warns  []string
	may    []string // warnings that take an overlap to be seen
	passes []string // cases that might be skipped for the difference, and are not
	peer   func(p *peer)
	front  func(http.Handler) http.Handler     // outside of the peer
	listen func(srv *httptest.Server)          // changes the server before it starts
	target func(t *Target, s *httptest.Server) // changes the description
}

// start serves the variant until the test's end, and returns its description.
func (b benign) start(t *testing.T) Target {
	p := newPeer()
	if b.peer != nil {
		b.peer(p)
	}
	var h http.Handler = p
	if b.front != nil {
		h = b.front(h)
	}
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ErrorLog = quietLog
	if b.listen != nil {
		b.listen(srv)
	}
	if srv.EnableHTTP2 {
		srv.StartTLS()
	} else {
		srv.Start()
	}
	t.Cleanup(func() { srv.Close(); p.pending.Wait() })
	target := peerTarget(srv.URL)
	required := !p.optional
	target.Name, target.Key.Header, target.Key.Required, target.Key.UUID = b.name, p.header, &required, p.uuid
	target.Key.Strict, target.Key.Quoted = p.quoted, p.quoted
	if srv.TLS != nil {
		target.TLS = srv.Client().Transport.(*http.Transport).TLSClientConfig
	}
	if b.target != nil {
		b.target(&target, srv)
	}
	return target
}

// peerTarget describes a peer.
func peerTarget(url string) Target {
	return Target{
		BaseURL: url, Profile: "ietf",
		Operation: Operation{
			Method: "POST", Path: "/orders", Headers: map[string]string{"Content-Type": "application/json"},
			Body: `{"account":"{{case}}","item":"{{payload}}","amount":{{number}}}`,
		},
		Key: Key{MaxLength: 255},
		Principals: []Principal{
			{Name: "alice", Headers: map[string]string{"Authorization": "Bearer alice-secret"}},
			{Name: "bob", Headers: map[string]string{"Authorization": "Bearer bobby-secret"}},
		},
		Effects: &Effects{URL: "/effects?account={{case}}", Path: "count"},
		Second:  &Operation{Path: "/refunds"},
		Patch:   &Operation{Method: "PATCH"},
		Empty:   &Operation{Path: "/empty"},
		Large:   &Operation{Path: "/large"},
		Invalid: &Operation{Body: `{"account":"{{case}}","item":"{{payload}}","amount":0}`},
		Get:     &Operation{Method: "GET", Path: "/orders?account={{case}}"},
		Query:   &Operation{Method: "QUERY", Path: "/orders?account={{case}}", Body: "amount > 0"},
		Slow: &Slow{Operation: Operation{Headers: map[string]string{"X-Slow": slowness.String()}},
			Takes: Duration(slowness)},
		Fault:   &Fault{Operation: Operation{Headers: map[string]string{"X-Fault": "500"}}},
		Limited: &Operation{Headers: map[string]string{"X-Fault": "429"}},
		Crash: &Crash{Operation: Operation{Headers: map[string]string{"X-Fault": "crash"}},
			Lease: Duration(2 * time.Second)},
		Expiring: &Expiring{Operation: Operation{Path: "/short"}, Retention: Duration(shortRetention)},
		Timeout:  Duration(30 * time.Second),
	}
}
