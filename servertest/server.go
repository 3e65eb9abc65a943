package servertest

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"testing"
	"time"
)

// memURL is the address of a server in memory. The name can't exist (RFC 2606).
const memURL = "http://memory.test"

// Server is an HTTP/1.1 server that plays scripted faults in front of a service, and keeps a ledger of both. All
// its methods may be used concurrently.
type Server struct {
	// URL is the server's base address, without a slash at its end.
	URL string

	logf      func(format string, args ...any)
	ledger    *Ledger
	scripts   *scripts
	keyHeader string
	service   http.Handler
	principal func(*http.Request) string
	transport *http.Transport

	closeStore func() // of a store that the server created

	http     *http.Server
	listener *wireListener
	served   chan struct{} // closed when no more connections are accepted
	ctx      context.Context
	cancel   context.CancelFunc
	shut     sync.Once

	mu      sync.Mutex
	closing bool
	running sync.WaitGroup // requests
}

// New starts a server on a loopback socket. The test's end closes it. The test then fails for every scripted fault
// that did not occur, see [Lenient]. An invalid fault or option ends the test immediately.
//
// A socket waits in real time: in a synctest bubble use [NewInMemory].
func New(t testing.TB, opts ...Option) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("servertest: listen on loopback: %v", err)
		return nil
	}
	return start(t, l, "http://"+l.Addr().String(), dialNet, opts)
}

// NewInMemory starts the same server on connections in memory. Only [Server.Client] and [Server.Transport] reach
// it, under every host that a URL names. In a synctest bubble it uses the bubble's clock: a fault's delay takes
// exactly its duration in that clock, and no real time.
//
// On these connections a reset is syscall.ECONNRESET and a closed server syscall.ECONNREFUSED, as on a socket.
func NewInMemory(t testing.TB, opts ...Option) *Server {
	t.Helper()
	l := newMemListener()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return l.Dial(ctx) }
	return start(t, l, memURL, dial, opts)
}

// Serve starts the server on a listener, for programs that are not tests. Examples are a reference server for
// clients in other languages, and a proxy that loses responses. The server owns the listener from then on, even if
// Serve returns an error. The caller closes the server. [Server.Unplayed] returns the faults for which a test
// would have failed, and [Lenient] has no effect. If logf is not nil, it reports a handler's panic, and may be
// called concurrently.
func Serve(l net.Listener, logf func(format string, args ...any), opts ...Option) (*Server, error) {
	set, err := newSetup(opts)
	if err == nil && logf == nil {
		logf = func(string, ...any) {}
	}
	var s *Server
	if err == nil {
		s, err = open(l, "http://"+l.Addr().String(), dialNet, set, logf)
	}
	if err != nil {
		_ = l.Close() // nothing was accepted yet
		return nil, err
	}
	return s, nil
}

func start(t testing.TB, l net.Listener, url string, dial dialFunc, opts []Option) *Server {
	t.Helper()
	set, err := newSetup(opts)
	var s *Server
	if err == nil {
		s, err = open(l, url, dial, set, t.Logf)
	}
	if err != nil {
		_ = l.Close() // nothing was accepted yet
		t.Fatal(err)
		return nil
	}
	t.Cleanup(func() {
		t.Helper()
		s.Close()
		if set.lenient {
			return
		}
		for _, missing := range s.Unplayed() {
			t.Errorf("servertest: %s", missing)
		}
	})
	return s
}

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

func dialNet(ctx context.Context, network, addr string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, addr)
}

// open serves on the listener, unless the options are wrong.
func open(l net.Listener, url string, dial dialFunc, set *setup, logf func(string, ...any)) (*Server, error) {
	service, closeStore, err := set.service()
	if err != nil {
		return nil, err
	}
	s := &Server{
		URL:        url,
		logf:       logf,
		ledger:     &Ledger{},
		scripts:    set.scripts,
		keyHeader:  set.keyHeader,
		service:    service,
		closeStore: closeStore,
		principal:  set.principal,
		// The transport has no proxy, no transparent decompression and no timeout, so that a test sees exactly the
		// script.
		transport: &http.Transport{DialContext: dial, DisableCompression: true, MaxIdleConnsPerHost: 64},
		listener:  newWireListener(l),
		served:    make(chan struct{}),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.http = &http.Server{
		Handler:  http.HandlerFunc(s.serve),
		ErrorLog: log.New(io.Discard, "", 0), // panics go to the test; faults cause the rest
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
	}
	go func() {
		defer close(s.served)
		_ = s.http.Serve(s.listener) // returns when the listener is closed
	}()
	return s, nil
}

type connKey struct{}

// Ledger returns the server's ledger.
func (s *Server) Ledger() *Ledger { return s.ledger }

// Requests returns a copy of the received requests, in the order of arrival. [Ledger.Requests] defines which
// requests count.
func (s *Server) Requests() []Request { return s.ledger.sent() }

// Transport returns the transport that reaches the server. It is always the same one. It has no timeout, uses no
// proxy and returns bodies exactly as sent.
func (s *Server) Transport() *http.Transport { return s.transport }

// Client returns a new client over [Server.Transport].
func (s *Server) Client() *http.Client { return &http.Client{Transport: s.transport} }

// Close stops the server. It refuses and closes connections, ends all holds, and waits for the requests that the
// service has begun. A handler that waits for the end of its context is ended by the middleware's time limit, a minute
// unless [WithMiddleware] has a server.HandlerTimeout. Close can be called again. The test's end calls it.
func (s *Server) Close() {
	s.shut.Do(func() {
		s.mu.Lock()
		s.closing = true
		s.mu.Unlock()
		s.cancel()
		// The errors only report connections that are already closed.
		_ = s.http.Close()
		<-s.served
		s.listener.closeConns()
		s.running.Wait()
		s.transport.CloseIdleConnections()
		s.closeStore()
	})
}

// Unplayed describes each scripted fault that has not occurred, one line each, with the key, the step and the
// fault. A test with New or NewInMemory fails for them at its end. A client may have its response before the
// server has recorded that. Unplayed therefore waits for a request that is at its fault, at most one second.
func (s *Server) Unplayed() []string {
	for end := time.Now().Add(time.Second); s.scripts.undecided() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	return s.scripts.unfired()
}

// begin counts a new request, unless the server is closing.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.running.Add(1)
	return true
}

// serve plays one request's part of the script.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	conn, ok := r.Context().Value(connKey{}).(*wireConn)
	// net/http hands the preface of an HTTP/2 client, "PRI * HTTP/2.0", to its handler. It is no request.
	if !ok || r.ProtoMajor != 1 || !s.begin() {
		panic(http.ErrAbortHandler)
	}
	defer s.running.Done()
	x := &exchange{srv: s, w: w, r: r, conn: conn, before: conn.written.Load()}
	x.request = s.ledger.arrive(r, keyOf(r.Header, s.keyHeader), conn.number)
	defer x.rest()
	defer x.abort()

	if stale := conn.disarm(); stale != nil {
		x.come(stale)
		s.ledger.met(x.request, "after "+stale.fault.String())
		x.readBody()
		x.close()
		return
	}
	if st := s.scripts.take(x.request.Key, x.request.Number); st != nil {
		x.come(st)
		s.ledger.met(x.request, x.step.fault.String())
	}
	if x.step == nil || !x.step.fault.unread {
		x.readBody()
	}
	x.play()
}

// abort ends a request whose fault did not end it. It reports the service's panic to the test and breaks the
// client's connection.
func (x *exchange) abort() {
	if p := recover(); p != nil {
		if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
			x.srv.logPanic(p, debug.Stack())
		}
		panic(http.ErrAbortHandler)
	}
	if !x.answered {
		panic(http.ErrAbortHandler)
	}
}

func (s *Server) logPanic(p any, stack []byte) {
	s.logf("servertest: the handler panicked: %v\n%s", p, stack)
}
