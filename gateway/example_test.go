package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"

	"github.com/redo-go/redo/gateway"
	"github.com/redo-go/redo/store/memstore"
)

// A phone loses the response and sends the request again. The upstream sees it once, under another key.
func Example() {
	charges := 0
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		charges++
		fmt.Println("the phone's key goes upstream:", r.Header.Get("Idempotency-Key") == "tap-1")
		fmt.Fprintf(w, "charge %d", charges)
	}))
	defer upstream.Close()

	target, _ := url.Parse(upstream.URL)
	g, err := gateway.New(target, memstore.New(),
		gateway.Principal(func(r *http.Request) string { return r.Header.Get("X-User") }),
		gateway.Secret([]byte("at least 16 bytes, from a vault")),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	srv := httptest.NewServer(g)
	defer srv.Close()

	for range 2 {
		req, _ := http.NewRequest(http.MethodPost, srv.URL+"/charges", strings.NewReader(`{"amount":1000}`))
		req.Header = http.Header{"Idempotency-Key": {"tap-1"}, "X-User": {"ann"}}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			fmt.Println(err)
			return
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		fmt.Println(string(body), resp.Header.Get("Idempotency-Status"))
	}
	// Output:
	// the phone's key goes upstream: false
	// charge 1 stored
	// charge 1 replayed
}
