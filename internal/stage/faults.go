package stage

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"syscall"
	"time"
)

// The faults of a request. The command "faults" sets those of the next requests.
const (
	None        = "none"
	Reset       = "reset"    // a reset before the request is read
	Unavailable = "503"      // 503 before the request is read
	Limited     = "429"      // 429 with Retry-After: 1
	Lose        = "lose"     // a reset after the effect, before the response
	Truncate    = "truncate" // a response that ends within its headers
	Hold        = "hold"     // a response that is held back until a process is killed
)

// Serve serves h behind the faults, at an address that a killed part may have had before. It returns when it fails.
func Serve(address string, v Voice, h http.Handler) error {
	l, err := listen(address)
	if err != nil {
		return err
	}
	f := &faults{next: h, voice: v}
	On("faults", f.script)
	srv := &http.Server{
		Handler: f, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
	}
	Up(l.Addr().String())
	return srv.Serve(l)
}

// listen waits for an address that a connection of another process may have for a while.
func listen(address string) (net.Listener, error) {
	for deadline := time.Now().Add(Patience / 2); ; time.Sleep(5 * time.Millisecond) {
		l, err := net.Listen("tcp", address)
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(deadline) {
			return l, err
		}
	}
}

// faults is the network before a service.
type faults struct {
	next  http.Handler
	voice Voice
	mu    sync.Mutex
	steps []string
}

// script replaces the faults of the next requests.
func (f *faults) script(steps []string) (any, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.steps = steps
	return nil, nil
}

func (f *faults) step() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.steps) == 0 {
		return None
	}
	step := f.steps[0]
	f.steps = f.steps[1:]
	return step
}

func (f *faults) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch step := f.step(); step {
	case Unavailable:
		f.voice.Say("overloaded: 503")
		w.WriteHeader(http.StatusServiceUnavailable)
	case Limited:
		f.voice.Say("too many requests: 429, Retry-After: 1")
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	case Reset:
		f.voice.Say("a request is lost: connection reset")
		f.cut(w, "")
	case Lose:
		f.voice.Say("returns %d, and the response is lost: connection reset", f.run(r).Code)
		f.cut(w, "")
	case Truncate:
		f.voice.Say("returns %d, and the response is cut off", f.run(r).Code)
		f.cut(w, "HTTP/1.1 200 OK\r\nContent-Le")
	case Hold:
		text := fmt.Sprintf("returns %d, and the response is still under way", f.run(r).Code)
		emit(message{Actor: string(f.voice), Text: text, Held: true})
		time.Sleep(Patience) // a process is killed long before
		f.cut(w, "")
	default:
		pass(w, f.run(r))
	}
}

// run runs the service, and reports a replay or a refusal.
func (f *faults) run(r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	f.next.ServeHTTP(rec, r)
	if rec.Header().Get("Idempotency-Status") == "replayed" {
		f.voice.Good("replays its record, nothing was run")
	} else if code := rec.Header().Get("Error-Code"); code != "" {
		f.voice.Say("returned %d %s", rec.Code, code)
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

// cut writes a part of a response, if any, and closes the connection. A connection without a response is reset.
func (f *faults) cut(w http.ResponseWriter, begun string) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		f.voice.Say("can't take the connection over: %v", err)
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok && begun == "" {
		_ = tcp.SetLinger(0)
	}
	_, _ = conn.Write([]byte(begun))
	_ = conn.Close()
}
