package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"
)

// What the network and the machines around the service do to its requests, one step a request.
const (
	faultLose = "lose" // the service works and answers, and the answer never arrives
	faultHold = "hold" // the same, and the connection stays open until somebody is killed
	fault503  = "503"
	fault429  = "429"
	faultNone = "none"
)

// faults stands for the network in front of the service. POST /faults scripts it.
type faults struct {
	next  http.Handler
	say   func(string, ...any)
	mu    sync.Mutex
	steps []string
}

func (f *faults) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method + " " + r.URL.Path {
	case "POST /faults":
		b, _ := io.ReadAll(io.LimitReader(r.Body, 1<<10))
		f.mu.Lock()
		f.steps = strings.Fields(string(b))
		f.mu.Unlock()
		return
	case "POST /mark":
		emit(event{Actor: "service", Mark: true})
		return
	}
	step := f.step(r)
	switch step {
	case "":
		rec := httptest.NewRecorder()
		f.next.ServeHTTP(rec, r)
		if rec.Header().Get("Idempotency-Status") == "replayed" {
			f.say("answered from its record, nothing was run")
		} else if code := rec.Header().Get("Error-Code"); code != "" {
			f.say("answered %d %s", rec.Code, code)
		}
		pass(w, rec)
	case fault503:
		f.say("overloaded: 503")
		w.WriteHeader(http.StatusServiceUnavailable)
	case fault429:
		f.say("too many requests: 429, Retry-After: 1")
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	case faultLose, faultHold:
		rec := httptest.NewRecorder()
		f.next.ServeHTTP(rec, r)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			f.say("can't take the connection over: %v", err)
			return
		}
		if step == faultHold {
			emit(event{Actor: "service", Text: fmt.Sprintf("answers %d, and the answer is still under way", rec.Code), Held: true})
			time.Sleep(10 * time.Second) // somebody is killed long before
		} else {
			f.say("answers %d, and the answer is lost: connection reset", rec.Code)
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	}
}

func pass(w http.ResponseWriter, rec *httptest.ResponseRecorder) {
	for name, values := range rec.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(rec.Code)
	_, _ = w.Write(rec.Body.Bytes())
}

func (f *faults) step(r *http.Request) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Method != http.MethodPost || len(f.steps) == 0 {
		return ""
	}
	step := f.steps[0]
	f.steps = f.steps[1:]
	if step == faultNone {
		return ""
	}
	return step
}
