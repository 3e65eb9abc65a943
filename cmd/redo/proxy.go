package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/redo-go/redo/cmd/redo/internal/script"
	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/servertest"
)

func newProxy(t terminal) *cobra.Command {
	p := playing{faults: script.Language{NoStore: "redo proxy can't make the store of the server behind it fail"}}
	cmd := &cobra.Command{
		Use:   "proxy [flags] URL",
		Short: "Forward to a server, and lose, delay and garble its responses",
		Long: `proxy passes requests on to the server at URL, once each, and plays scripted faults on their way. "After
the effect" means here that the server has responded. It speaks HTTP/1.1 to the client, and HTTP or
HTTPS to the server.

` + fmt.Sprintf(scriptHelp, p.faults.Help()),
		Example: `  redo proxy http://localhost:8080 --script '*: reset-after-effect, ok'
  redo proxy https://staging.example.com --listen 127.0.0.1:9001 --script 'next: 503, delay(2s)'`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			upstream, err := url.Parse(args[0])
			if err != nil || !isURL(args[0]) || upstream.Host == "" || upstream.User != nil || upstream.RawQuery != "" {
				shown := "" // credentials are not shown
				if !strings.Contains(args[0], "@") {
					shown = fmt.Sprintf(", not %q", wire.ShownURL(args[0]))
				}
				return fmt.Errorf("the server must be an http or https URL with a host, and without credentials or "+
					"a query%s", shown)
			}
			if port := upstream.Port(); port != "" && !isPort(port) {
				return fmt.Errorf("the server's URL has the port %q, it must be at most 65535", port)
			}
			opts, err := p.options()
			if err != nil {
				return err
			}
			l, err := net.Listen("tcp", p.listen)
			if err != nil {
				return failed(err)
			}
			opts = append(opts, servertest.Bare(), servertest.Handler(forward(upstream, logTo(t))))
			srv, err := servertest.Serve(l, logTo(t), opts...)
			if err != nil {
				return err
			}
			defer srv.Close()
			if err := p.ready(t, "proxy", srv.URL); err != nil {
				return err
			}
			return p.until(c.Context(), t, srv)
		},
	}
	p.flags(cmd, "127.0.0.1:8081")
	return cmd
}

// forward forwards each request exactly once. It does not reuse connections: on a reused connection, net/http's
// client may resend a request that has a key. Such a retry by the proxy would distort the test.
func forward(upstream *url.URL, logf func(string, ...any)) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(upstream) },
		Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true},
		FlushInterval: -1, // streamed responses are not held back
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			logf("%s %s: %v", r.Method, r.URL.Path, err)
			w.WriteHeader(http.StatusBadGateway)
		},
	}
}
