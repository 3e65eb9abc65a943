package webhook_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/taxonomy"
	"github.com/redo-go/redo/webhook"
)

var (
	loopback  = netip.MustParsePrefix("127.0.0.1/32")
	neighbour = netip.MustParsePrefix("127.0.0.2/32")
)

// A site is an HTTP server on loopback that counts its connections.
type site struct {
	*httptest.Server
	connections atomic.Int32
	port        string
}

// newSite serves h on an address of loopback, at a free port if port is "0".
func newSite(t *testing.T, ip, port string, h http.HandlerFunc) *site {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(ip, port))
	if err != nil && ip != "127.0.0.1" {
		t.Skipf("this system has no address %s: %v", ip, err)
	}
	require.NoError(t, err)
	s := &site{}
	count := func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.connections.Add(1)
		}
	}
	s.Server = &httptest.Server{Listener: l, Config: &http.Server{Handler: h, ConnState: count}}
	s.Start()
	t.Cleanup(s.Close)
	_, s.port, err = net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return s
}

func ok(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

func transport(t *testing.T, opts ...webhook.DialerOption) *http.Transport {
	t.Helper()
	tr, err := webhook.Transport(opts...)
	require.NoError(t, err)
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// refused requires that err is a dialer's refusal of the address by the rule.
func refused(t *testing.T, err error, address, rule string) {
	t.Helper()
	e, ok := errors.AsType[*webhook.AddressError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, webhook.AddressError{Address: address, Rule: rule}, *e)
	require.ErrorIs(t, err, webhook.AddressRefused)
	require.Contains(t, err.Error(), "webhook: address "+address+" refused: "+rule)
}

func TestAPublicNameWithALoopbackAddressIsRefused(t *testing.T) {
	s := newSite(t, "127.0.0.1", "0", ok)
	dns := &dnsStub{records: []netip.Addr{loopback.Addr()}}
	resolver := dns.resolver(t)
	target := "http://hooks.shop.example:" + s.port + "/"

	client := &http.Client{Transport: transport(t, webhook.Resolver(resolver))}
	_, err := client.Get(target) //nolint:bodyclose // there is none
	refused(t, err, "127.0.0.1:"+s.port, "loopback, 127.0.0.0/8")
	require.EqualValues(t, 1, dns.lookups.Load())
	require.Zero(t, s.connections.Load())

	allowed := transport(t, webhook.Resolver(resolver), webhook.Allow(loopback))
	resp, err := (&http.Client{Transport: allowed}).Get(target)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.EqualValues(t, 1, s.connections.Load(), "the same server can be reached")
}

// The address that is judged is the address that is dialled: each connection makes one lookup.
func TestANameThatChangesItsAddressGainsNothing(t *testing.T) {
	good := newSite(t, "127.0.0.2", "0", ok)
	inner := newSite(t, "127.0.0.1", good.port, ok)
	dns := &dnsStub{records: []netip.Addr{neighbour.Addr(), loopback.Addr()}}
	tr := transport(t, webhook.Resolver(dns.resolver(t)), webhook.Allow(neighbour))
	tr.DisableKeepAlives = true
	client := &http.Client{Transport: tr}
	target := "http://rebind.shop.example:" + good.port + "/"

	resp, err := client.Get(target)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.EqualValues(t, 1, dns.lookups.Load(), "no lookup before the one of the connection")

	_, err = client.Get(target) //nolint:bodyclose // there is none
	refused(t, err, "127.0.0.1:"+good.port, "loopback, 127.0.0.0/8")
	require.EqualValues(t, 2, dns.lookups.Load())
	require.EqualValues(t, 1, good.connections.Load())
	require.Zero(t, inner.connections.Load())
}

func TestARedirectToAPrivateAddressIsRefused(t *testing.T) {
	inner := newSite(t, "127.0.0.1", "0", ok)
	for _, c := range []struct {
		name string
		to   func(r *http.Request) string
		want int
	}{
		{"elsewhere", func(*http.Request) string { return inner.URL }, 0},
		{
			"at the same site", func(r *http.Request) string { return "http://" + r.Host + "/moved" },
			http.StatusNoContent,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			outer := newSite(t, "127.0.0.2", "0", func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/moved" {
					w.WriteHeader(http.StatusNoContent)
					return
				}
				http.Redirect(w, r, c.to(r), http.StatusTemporaryRedirect)
			})
			client := &http.Client{Transport: transport(t, webhook.Allow(neighbour))}
			resp, err := client.Post(outer.URL, "application/json", strings.NewReader("{}"))
			if c.want == 0 {
				refused(t, err, inner.Listener.Addr().String(), "loopback, 127.0.0.0/8")
				require.Zero(t, inner.connections.Load())
				return
			}
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, c.want, resp.StatusCode)
		})
	}
}

// A resolver may read an odd form, and its result is judged. cgo resolvers read 0x7f.1 as 127.0.0.1, and Go's
// finds no host.
func TestAnAddressInAnyFormIsRefused(t *testing.T) {
	s := newSite(t, "127.0.0.1", "0", ok)
	for _, host := range []string{
		"127.0.0.1", "localhost", "0", "0.0.0.0", "[::]", "[::1]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]",
		"[fe80::1%25lo]",
		"127.1", "0x7f.1", "0177.0.0.1", "2130706433", "0x7f000001",
	} {
		for name, resolver := range map[string]*net.Resolver{"the system's": {}, "Go's": {PreferGo: true}} {
			client := &http.Client{Transport: transport(t, webhook.Resolver(resolver))}
			_, err := client.Get("http://" + host + ":" + s.port) //nolint:bodyclose // there is none
			require.Error(t, err, "%s, %s resolver", host, name)
			dns, notFound := errors.AsType[*net.DNSError](err)
			require.True(t, notFound || errors.Is(err, webhook.AddressRefused), "%s, %s resolver: %v", host, name, dns)
		}
	}
	require.Zero(t, s.connections.Load())
}

func TestOnlyTCPIsDialled(t *testing.T) {
	d := &webhook.Dialer{}
	path := t.TempDir() + "/socket"
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	_, err = d.DialContext(t.Context(), "unix", path)
	refused(t, err, path, "unix is not TCP")
	_, err = d.DialContext(t.Context(), "udp", "127.0.0.1:9")
	refused(t, err, "127.0.0.1:9", "udp4 is not TCP")
	_, err = d.DialContext(t.Context(), "tcp", ":9")
	require.ErrorIs(t, err, webhook.AddressRefused)
}

func TestTheTransportIgnoresProxies(t *testing.T) {
	proxy := newSite(t, "127.0.0.1", "0", ok)
	inner := newSite(t, "127.0.0.2", "0", ok)
	tr := transport(t, webhook.Allow(neighbour))
	require.Nil(t, tr.Proxy)
	resp, err := (&http.Client{Transport: tr}).Get(inner.URL)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.EqualValues(t, 1, inner.connections.Load())

	// With a proxy it is the proxy's address that is judged.
	through, err := url.Parse(proxy.URL)
	require.NoError(t, err)
	tr.Proxy = http.ProxyURL(through)
	_, err = (&http.Client{Transport: tr}).Get("http://10.0.0.1/") //nolint:bodyclose // there is none
	refused(t, err, proxy.Listener.Addr().String(), "loopback, 127.0.0.0/8")

	tr = transport(t, webhook.Allow(loopback))
	tr.Proxy = http.ProxyURL(through)
	resp, err = (&http.Client{Transport: tr}).Get("http://10.0.0.1/")
	require.NoError(t, err, "a proxy that is allowed reaches an address that the Dialer would refuse")
	require.NoError(t, resp.Body.Close())
	require.EqualValues(t, 1, proxy.connections.Load())
}

// A relay's client finds out that nothing was sent, and that a repetition does not help.
func TestARefusedAddressIsAnEventThatWasNotSent(t *testing.T) {
	s := newSite(t, "127.0.0.1", "0", ok)
	signs := signer(t, []webhook.Secret{secret(t, sharedSecret)})
	private := netip.MustParsePrefix("10.0.0.0/8")
	for _, c := range []struct {
		name string
		base http.RoundTripper
		code taxonomy.Code
	}{
		{"by default", nil, webhook.AddressRefused},
		{"with a range that is not its own", transport(t, webhook.Allow(private)), webhook.AddressRefused},
		{"unless it is allowed", transport(t, webhook.Allow(loopback)), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, err := redo.New(redo.WithTransport(signs.Transport(c.base)))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, client.Close()) })
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader("{}"))
			require.NoError(t, err)
			before := s.connections.Load()
			resp, err := client.Do(req)
			if c.code == "" {
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				return
			}
			e, ok := errors.AsType[*redo.Error](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, c.code, e.Code)
			require.Equal(t, redo.NotApplied, e.Effect)
			require.Len(t, e.Attempts, 1)
			require.Equal(t, 0, e.Attempts[0].WireSends)
			require.Equal(t, before, s.connections.Load())
		})
	}
}

func TestTheTransportSpeaksHTTP2AndBoundsTheResponse(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			w.Header().Set("X-Long", strings.Repeat("x", 100<<10))
		}
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	tr := transport(t, webhook.Allow(loopback))
	tr.TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig
	resp, err := (&http.Client{Transport: tr}).Get(s.URL)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 2, resp.ProtoMajor)
	_, err = (&http.Client{Transport: tr}).Get(s.URL + "/long") //nolint:bodyclose // there is none
	require.Error(t, err)
}

// A relay has 16 deliveries at a time to one consumer by default.
func TestTheTransportKeepsTheConnectionsOfABusyConsumer(t *testing.T) {
	const crowd = 16
	var arrived, sent sync.WaitGroup
	s := newSite(t, "127.0.0.1", "0", func(w http.ResponseWriter, _ *http.Request) {
		arrived.Done()
		arrived.Wait()
		w.WriteHeader(http.StatusNoContent)
	})
	client := &http.Client{Transport: transport(t, webhook.Allow(loopback))}
	for range 2 {
		arrived.Add(crowd)
		for range crowd {
			sent.Go(func() {
				resp, err := client.Get(s.URL)
				if err != nil {
					t.Error(err)
					return
				}
				_ = resp.Body.Close()
			})
		}
		sent.Wait()
	}
	require.EqualValues(t, crowd, s.connections.Load())
}

func TestADialerKeepsToItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d, err := webhook.NewDialer(webhook.Allow(loopback))
	require.NoError(t, err)
	_, err = d.DialContext(ctx, "tcp", "127.0.0.1:1")
	require.ErrorIs(t, err, context.Canceled)
}
