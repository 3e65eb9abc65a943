package proxies

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/internal/freeport"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

// squid starts a forward proxy with settings of its own, and returns its URL.
func squid(t *testing.T, settings string) string {
	t.Helper()
	address, err := freeport.Address()
	require.NoError(t, err)
	return forward(t, address, "squid", []string{"-N", "-f"}, "http_port "+address+"\npid_filename none\n"+
		"access_log none\ncache_log /dev/null\nshutdown_lifetime 0 seconds\nvisible_hostname proxy.test\n"+settings)
}

// tinyproxy starts a forward proxy that requires credentials, and returns its URL.
func tinyproxy(t *testing.T) string {
	t.Helper()
	port, err := freeport.Port()
	require.NoError(t, err)
	return forward(t, fmt.Sprintf("127.0.0.1:%d", port), "tinyproxy", []string{"-d", "-c"},
		fmt.Sprintf("Listen 127.0.0.1\nPort %d\nTimeout 20\nBasicAuth amira secret\n", port))
}

func forward(t *testing.T, address, name string, args []string, settings string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "conf")
	require.NoError(t, os.WriteFile(file, []byte(settings), 0o600))
	launch(t, address, name, append(args, file))
	return "http://" + address
}

// within returns a client whose requests go through a forward proxy.
func within(t *testing.T, proxy string, opts ...redo.Option) *redo.Client {
	t.Helper()
	u, err := url.Parse(proxy)
	require.NoError(t, err)
	theirs := http.DefaultTransport.(*http.Transport)
	ours := theirs.Clone()
	ours.Proxy = http.ProxyURL(u)
	http.DefaultTransport = ours // the client's own transport is a copy of it
	defer func() { http.DefaultTransport = theirs }()
	return newClient(t, opts...)
}

// A request that the proxy refuses to pass on has no effect, and the code names the reason.
func TestAForwardProxyThatRefuses(t *testing.T) {
	down, err := freeport.Address()
	require.NoError(t, err)
	for _, c := range []struct {
		name  string
		proxy string
		url   string
		code  taxonomy.Code
	}{
		{"credentials, in a request", tinyproxy(t), "http://" + down, taxonomy.ProxyAuth},
		{"credentials, in CONNECT", tinyproxy(t), "https://" + down, taxonomy.ProxyAuth},
		{"an address, in CONNECT", squid(t, "http_access deny all\n"), "https://" + down, taxonomy.Forbidden},
		{"a service that is down, in CONNECT", squid(t, "http_access allow all\n"), "https://" + down,
			taxonomy.Unavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := send(t, within(t, c.proxy, once), c.url, `{"amount":1}`)
			require.NotNil(t, e)
			assert.Equal(t, []any{c.code, redo.NotApplied}, []any{e.Code, e.Effect}, "%v", e)
		})
	}
}

// A filter of responses sends its page in place of the response, after the effect.
func TestAForwardProxyThatWithholdsTheResponse(t *testing.T) {
	filter := "acl json rep_mime_type application/json\nhttp_reply_access deny json\nhttp_access allow all\n"
	for name, settings := range map[string]string{
		"by a page":     filter,
		"by a redirect": filter + "deny_info http://portal.test/blocked json\n",
	} {
		t.Run(name, func(t *testing.T) {
			srv := servertest.New(t)
			client := within(t, squid(t, settings), redo.WithStore(memstore.New()))
			for range 2 {
				req := newRequest(t, srv.URL, `{"amount":1}`)
				_, err := client.Do(req.WithContext(redo.WithOperation(t.Context(), "order")))
				var e *redo.Error
				require.ErrorAs(t, err, &e)
				assert.Equal(t, redo.EffectUnknown, e.Effect, "%v", e)
			}
			assert.Equal(t, 1, srv.Ledger().Total())
			assert.Len(t, srv.Requests(), 2)
		})
	}
}
