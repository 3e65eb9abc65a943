package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"
)

// What the network, and the machines around a service, do to its requests: one step a request.
const (
	faultNone     = "none"
	faultReset    = "reset"    // the connection is reset before anything is done
	fault503      = "503"      //
	fault429      = "429"      // with Retry-After: 1
	faultLose     = "lose"     // everything is done, and the connection is reset before the answer
	faultTruncate = "truncate" // everything is done, and the answer is cut off within its headers
	faultHold     = "hold"     // everything is done, and the answer is under way until somebody is killed
)

// faults stands for the network before a service.
type faults struct {
	next  http.Handler
	voice voice
	mu    sync.Mutex
	steps []string
}

// script is the command that says what is to go wrong.
func (f *faults) script(steps []string) answer {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.steps = steps
	return answer{}
}

func (f *faults) step() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.steps) == 0 {
		return faultNone
	}
	step := f.steps[0]
	f.steps = f.steps[1:]
	return step
}

func (f *faults) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch step := f.step(); step {
	case fault503:
		f.voice.say("overloaded: 503")
		w.WriteHeader(http.StatusServiceUnavailable)
	case fault429:
		f.voice.say("too many requests: 429, Retry-After: 1")
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	case faultReset:
		f.voice.say("a request is lost: connection reset")
		f.cut(w, "")
	case faultNone:
		pass(w, f.run(r))
	default:
		rec := f.run(r)
		switch step {
		case faultHold:
			emit(word{Actor: string(f.voice), Text: "done, and the answer is still under way", Held: true})
			time.Sleep(patience) // somebody is killed long before
			f.cut(w, "")
		case faultTruncate:
			f.voice.say("answers %d, and the answer is cut off", rec.Code)
			f.cut(w, "HTTP/1.1 200 OK\r\nContent-Le")
		default:
			f.voice.say("answers %d, and the answer is lost: connection reset", rec.Code)
			f.cut(w, "")
		}
	}
}

// run lets the service work, and tells what it made of the request.
func (f *faults) run(r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	f.next.ServeHTTP(rec, r)
	if rec.Header().Get("Idempotency-Status") == "replayed" {
		f.voice.good("had this before: nothing is run")
	} else if rec.Code >= 400 {
		f.voice.say("answers %d %s", rec.Code, rec.Header().Get("Error-Code"))
	}
	return rec
}

func pass(w http.ResponseWriter, rec *httptest.ResponseRecorder) {
	for name, values := range rec.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(rec.Code)
	_, _ = w.Write(rec.Body.Bytes())
}

// cut writes a part of an answer, if any, and closes the connection; one without an answer is reset.
func (f *faults) cut(w http.ResponseWriter, part string) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		f.voice.say("can't take the connection over: %v", err)
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok && part == "" {
		_ = tcp.SetLinger(0)
	}
	_, _ = conn.Write([]byte(part))
	_ = conn.Close()
}
