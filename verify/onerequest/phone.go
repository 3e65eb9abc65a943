package onerequest

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"
)

// A response is what a phone gets.
type response struct {
	status int
	code   string // Error-Code
	body   string
}

func (r response) success() bool { return strings.HasPrefix(r.body, "effect-") }
func (r response) refused() bool { return r.body == declined }

const (
	right = `{"amount":1}`
	wrong = `{"amount":2}`
)

// request sends the phone's request to a process. It returns nil if the phone got no response.
func (l *life) request(payload string) *response {
	r := httptest.NewRequest(http.MethodPost, "/charges", strings.NewReader(payload))
	r.Header.Set("Idempotency-Key", "k")
	l.mu.Lock()
	l.under++
	l.mu.Unlock()
	l.upstream.open()
	got := l.send(r)
	l.mu.Lock()
	l.under--
	alone := l.under == 0
	l.mu.Unlock()
	if got != nil {
		l.check(*got, payload, alone)
	}
	return got
}

// send sends a request to one of the processes. It returns nil if there is no response.
func (l *life) send(r *http.Request) *response {
	p := l.processes.Any()
	ctx, disconnect := context.WithCancel(r.Context())
	if l.Chance(20) {
		defer time.AfterFunc(l.Span(leaseTTL), disconnect).Stop()
	}
	w := httptest.NewRecorder()
	func() {
		defer func() {
			if recover() != nil {
				w = nil // the connection breaks off
			}
		}()
		p.gateway.ServeHTTP(w, r.WithContext(ctx))
	}()
	gone := ctx.Err() != nil
	disconnect()
	if w == nil || gone || p.Dead.Load() {
		l.Log("a phone of %s gets no response", p.Name)
		return nil
	}
	got := &response{w.Code, w.Header().Get("Error-Code"), w.Body.String()}
	l.Log("a phone of %s gets %d %s %.90q", p.Name, got.status, got.code, got.body)
	return got
}

// check compares a response with the effect and with earlier responses.
func (l *life) check(got response, payload string, alone bool) {
	made := l.upstream.made()
	switch {
	case got.success() && (made == nil || made.id != got.body || made.payload != payload):
		l.Violate("the success %q for %s does not name the effect %v", got.body, payload, made)
	case got.status/100 == 2 && got.status != http.StatusAccepted && !got.success():
		l.Violate("%d %q is no response of the upstream", got.status, got.body)
	case got.refused():
		if made != nil {
			l.Violate("a phone is refused, and there is the effect %v", made)
		}
		l.upstream.close("a refusal", false)
	case strings.Contains(got.body, "Nothing was done"):
		if made != nil {
			l.Violate("a phone is told that nothing was done, and there is the effect %v", made)
		}
		if alone {
			l.upstream.close("the claim that nothing was done", true)
		}
	}
	if !got.success() && !got.refused() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.final == nil {
		l.final = &got
	} else if *l.final != got {
		l.Violate("a response was %d %q, and a later one is %d %q", l.final.status, l.final.body, got.status, got.body)
	}
}

// ask asks for the state of the request.
func (l *life) ask() {
	got := l.send(httptest.NewRequest(http.MethodGet, statusPath+"?key=k", nil))
	if got == nil || got.status != http.StatusOK {
		return
	}
	var status struct {
		State  string `json:"state"`
		Status int    `json:"status"`
	}
	if err := json.Unmarshal([]byte(got.body), &status); err != nil {
		l.Violate("the state is %q", got.body)
	}
	made := l.upstream.made()
	switch {
	case status.State == "complete" && status.Status/100 == 2 && made == nil:
		l.Violate("the state is %q, and there is no effect", got.body)
	case status.Status == http.StatusUnprocessableEntity:
		if made != nil && made.payload == right {
			l.Violate("the state is %q, and there is the effect %v", got.body, made)
		}
	}
}
