package conformance

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/freeport"
	"github.com/redo-go/redo/internal/shop"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/store/memstore"
)

// slowness is the duration of the lab's slow operation, and shortRetention the retention of its expiring one. A
// machine that is busy needs longer ones, and no test depends on their being short.
const (
	slowness       = 400 * time.Millisecond
	shortRetention = time.Second
)

// A lab is the reference server: redo's middleware in front of a shop, with everything that a target can declare.
// Mutants put their defect into one of its hooks.
type lab struct {
	t       testing.TB
	server  *http.Server
	address string
	served  chan struct{}
	bolt    string // the store's file; empty: in memory

	mu         sync.Mutex
	store      store.Store
	background *server.Background
	handler    http.Handler
	effects    map[string]int // by account
	orders     int

	options  []server.Option
	optional bool                                 // the key is
	front    func(http.Handler) http.Handler      // outside of the middleware
	wire     func(net.Conn) net.Conn              // below HTTP
	app      http.Handler                         // the shop
	reopen   func(store.Store) store.Store        // changes the store in memory at a restart
	describe func(t *Target)                      // changes the description
	short    time.Duration                        // the expiring operation's real retention
	lifetime string                               // the retention that is advertised
	cors     cors                                 // the permissions of browsers
	inner    func(next http.Handler) http.Handler // between the middleware and the shop
}

// newLab sets a lab up, to be changed before it is started.
func newLab(t testing.TB) *lab {
	l := &lab{
		t: t, effects: map[string]int{}, short: shortRetention, lifetime: "P1D", cors: openCORS,
		front:    func(h http.Handler) http.Handler { return h },
		inner:    func(h http.Handler) http.Handler { return h },
		wire:     func(c net.Conn) net.Conn { return c },
		reopen:   func(st store.Store) store.Store { return st },
		describe: func(*Target) {},
	}
	l.app = shop.Shop{Effect: l.made}
	return l
}

// start serves the lab until the test's end.
func (l *lab) start() *lab {
	l.open(memstore.New())
	l.listen("")
	l.t.Cleanup(func() {
		l.stop()
		l.closeStore()
	})
	return l
}

// open builds the handlers over the store, or over the bolt file where there is one.
func (l *lab) open(st store.Store) {
	if l.bolt != "" {
		var err error
		st, err = boltstore.Open(l.bolt)
		require.NoError(l.t, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.store, l.background = st, new(server.Background)
	guard := func(opts ...server.Option) func(http.Handler) http.Handler {
		all := []server.Option{server.Principal(principal), server.LeaseTTL(time.Second), server.RunIn(l.background)}
		if !l.optional {
			all = append(all, server.Required())
		}
		mw, err := server.New(st, append(append(all, l.options...), opts...)...)
		require.NoError(l.t, err)
		return func(h http.Handler) http.Handler { return mw(l.inner(h)) }
	}
	plain := guard()
	mux := http.NewServeMux()
	for _, route := range []string{"POST /orders", "PATCH /orders", "POST /refunds", "POST /empty", "POST /large"} {
		mux.Handle(route, plain(l.app))
	}
	mux.Handle("POST /short", guard(server.Retention(l.short), server.LeaseTTL(min(l.short, time.Second)))(l.app))
	mux.Handle("GET /orders", plain(http.HandlerFunc(l.total)))
	mux.Handle("QUERY /orders", plain(http.HandlerFunc(l.total)))
	mux.HandleFunc("GET /effects", l.total)
	mux.HandleFunc("GET /config", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"idempotency-key-lifetime":%q}`, l.lifetime)
	})
	l.handler = l.front(l.cors.around(compressed(mux)))
}

// closeStore stops the middleware's background writes first, because a closed store records nothing.
func (l *lab) closeStore() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = l.background.Shutdown(ended) // its error would say that outcomes are left
	if c, ok := l.store.(io.Closer); ok {
		require.NoError(l.t, c.Close())
	}
}

// listen serves at the address, or at one of its own choice if it is empty.
func (l *lab) listen(address string) {
	var err error
	if address == "" {
		address, err = freeport.Address()
		require.NoError(l.t, err)
	}
	ln, err := net.Listen("tcp", address)
	// A program that this process starts meanwhile holds a copy of a closed listener until its exec.
	for end := time.Now().Add(5 * time.Second); errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
		ln, err = net.Listen("tcp", address)
	}
	require.NoError(l.t, err)
	l.address = ln.Addr().String()
	l.mu.Lock()
	h := l.handler
	l.mu.Unlock()
	l.server = &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		}}
	l.served = make(chan struct{})
	go func() {
		defer close(l.served)
		_ = l.server.Serve(wiredListener{ln, l})
	}()
}

type connKey struct{}

type wiredListener struct {
	net.Listener
	l *lab
}

func (w wiredListener) Accept() (net.Conn, error) {
	c, err := w.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return w.l.wire(c), nil
}

func (l *lab) stop() {
	_ = l.server.Close()
	<-l.served
}

// restart stops the server, closes its store, and starts both again at the same address.
func (l *lab) restart(context.Context) error {
	l.stop()
	if l.bolt != "" {
		l.closeStore()
	}
	l.open(l.reopen(l.store))
	l.listen(l.address)
	return nil
}

// target describes the lab as its user would.
func (l *lab) target() Target {
	required := !l.optional
	t := Target{
		Name:    "lab",
		BaseURL: "http://" + l.address,
		Operation: Operation{
			Method: "POST", Path: "/orders",
			Headers: map[string]string{"Content-Type": "application/json"},
			Body:    `{"account":"{{case}}","item":"{{payload}}","amount":{{number}}}`,
		},
		Key: Key{Required: &required, MaxLength: 255, Strict: true},
		Principals: []Principal{
			{Name: "alice", Headers: map[string]string{"Authorization": "Bearer alice-secret"}},
			{Name: "bob", Headers: map[string]string{"Authorization": "Bearer bobby-secret"}},
		},
		Effects: &Effects{URL: "/effects?account={{case}}", Path: "count"},
		Second:  &Operation{Path: "/refunds"},
		Patch:   &Operation{Method: "PATCH"},
		Empty:   &Operation{Path: "/empty"},
		Large:   &Operation{Path: "/large"},
		Invalid: &Operation{Body: `{"account":"","item":"{{payload}}","amount":0}`},
		Interim: &Operation{Headers: map[string]string{"X-Interim": "1"}},
		Get:     &Operation{Method: "GET", Path: "/orders?account={{case}}"},
		Query:   &Operation{Method: "QUERY", Path: "/orders?account={{case}}", Body: `{"item":"{{payload}}"}`},
		Origin:  shopOrigin,
		Advertised: &Advertised{
			Operation: Operation{Method: "GET", Path: "/config"}, Member: "idempotency-key-lifetime",
		},
		Slow: &Slow{Operation: Operation{Headers: map[string]string{"X-Slow": slowness.String()}},
			Takes: Duration(slowness)},
		Fault:   &Fault{Operation: Operation{Headers: map[string]string{"X-Fault": "500"}}},
		Limited: &Operation{Headers: map[string]string{"X-Fault": "429"}},
		Crash: &Crash{Operation: Operation{Headers: map[string]string{"X-Fault": "crash"}},
			Lease: Duration(2 * time.Second)},
		Expiring: &Expiring{Operation: Operation{Path: "/short"}, Retention: Duration(shortRetention)},
		Restart:  &Restart{Func: l.restart},
		Timeout:  Duration(30 * time.Second),
	}
	l.describe(&t)
	return t
}

func principal(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}

type order = shop.Order

// made makes the effect of an order.
func (l *lab) made(r *http.Request, o order) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.orders++
	l.effects[o.Account]++
	return fmt.Sprintf("%s_%d", strings.Trim(r.URL.Path, "/"), l.orders), nil
}

func (l *lab) total(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.effects[r.URL.Query().Get("account")]
	if r.URL.Query().Has("all") {
		n = l.orders
	}
	fmt.Fprintf(w, `{"count":%d}`, n)
}

// effect adds one, for mutants.
func (l *lab) effect(account string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.effects[account]++
}

// compressed compresses responses outside of the middleware, as the package's documentation recommends.
func compressed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "gzip" {
			next.ServeHTTP(w, r)
			return
		}
		rec := newRecorder(w)
		next.ServeHTTP(rec, r)
		copyHeader(w.Header(), rec.Header())
		w.Header().Del("Content-Length")
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(rec.Code)
		zw := gzip.NewWriter(w)
		_, _ = zw.Write(rec.Body.Bytes())
		_ = zw.Close()
	})
}

// recorder keeps a response, and lets informational ones through.
type recorder struct {
	*httptest.ResponseRecorder
	w http.ResponseWriter
}

func newRecorder(w http.ResponseWriter) recorder {
	return recorder{httptest.NewRecorder(), w}
}

func (r recorder) WriteHeader(status int) {
	if status >= 200 {
		r.ResponseRecorder.WriteHeader(status)
		return
	}
	copyHeader(r.w.Header(), r.Header())
	r.w.WriteHeader(status)
	clear(r.w.Header())
}

func copyHeader(to, from http.Header) {
	for name, values := range from {
		to[name] = values
	}
}

// stripeStatuses gives a mismatch Stripe's status, for which redo's middleware has no option.
func stripeStatuses(next http.Handler) http.Handler {
	return rewriting(func(_ *http.Request, a *httptest.ResponseRecorder) {
		if isMismatch(a) {
			a.Code = http.StatusBadRequest
		}
	})(next)
}

// inBolt puts the lab's store into a file.
func (l *lab) inBolt(t *testing.T) { l.bolt = filepath.Join(t.TempDir(), "lab.redo") }

// flush sends the recorded response.
func (r recorder) flush() {
	copyHeader(r.w.Header(), r.Header())
	r.w.Header().Del("Content-Length")
	if r.Code != http.StatusNoContent {
		r.w.Header().Set("Content-Length", strconv.Itoa(r.Body.Len()))
	}
	r.w.WriteHeader(r.Code)
	if r.Code != http.StatusNoContent {
		_, _ = r.w.Write(r.Body.Bytes())
	}
}

// discard drops the response to a probe.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) WriteHeader(int)             {}
func (d discard) Write(p []byte) (int, error) { return len(p), nil }

// reread returns two copies of a request whose body is in memory.
func reread(r *http.Request) (one, two *http.Request) {
	body, _ := io.ReadAll(r.Body)
	one, two = r.Clone(r.Context()), r.Clone(r.Context())
	one.Body, two.Body = nopCloser{bytes.NewReader(body)}, nopCloser{bytes.NewReader(body)}
	return one, two
}

type nopCloser struct{ io.Reader }

func (nopCloser) Close() error { return nil }

// replacing changes bytes as they come in. The headers of the harness come in one piece.
func replacing(from, to string) func(net.Conn) net.Conn {
	return func(c net.Conn) net.Conn { return replacingConn{c, []byte(from), []byte(to)} }
}

type replacingConn struct {
	net.Conn
	from, to []byte
}

func (c replacingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	return copy(b, bytes.ReplaceAll(b[:n], c.from, c.to)), err
}

// keepServerErrors stores responses of 500 and above too.
func keepServerErrors() server.Option {
	return server.Keep(func(status int) bool { return status >= 500 || server.DefaultKeep(status) })
}
