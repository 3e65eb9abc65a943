package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/gateway"
	"github.com/redo-go/redo/store"
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

func serve(ctx context.Context, address string, target *url.URL, st store.Store, secret []byte) error {
	user := func(r *http.Request) string { return r.Header.Get("X-User") }
	g, err := gateway.New(target, st, gateway.Principal(user), gateway.Secret(secret))
	if err != nil {
		return err
	}
	go g.Run(ctx) // continues the operations of a killed gateway
	err = http.ListenAndServe(address, g)
	return err
}

// The address is wrong, so this gateway ends immediately.
func ExampleGateway_Run() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	target := &url.URL{Scheme: "https", Host: "payments.example"}
	fmt.Println(serve(ctx, "no port", target, memstore.New(), []byte("at least 16 bytes, from a vault")))
	// Output: listen tcp: address no port: missing port in address
}

// An operator reads and continues the gateway's operations with a client of the gateway's scope and profile.
func Example_operations() {
	st, target := memstore.New(), &url.URL{Scheme: "http", Host: "127.0.0.1:1"} // nothing listens there
	g, err := gateway.New(target, st, gateway.Client(redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1})),
		gateway.Principal(func(*http.Request) string { return "ann" }),
		gateway.Secret([]byte("at least 16 bytes, from a vault")),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	tap := httptest.NewRequest(http.MethodPost, "/charges", strings.NewReader("{}"))
	tap.Header.Set("Idempotency-Key", "tap-1")
	g.ServeHTTP(httptest.NewRecorder(), tap)

	profile := redo.RedoProfile()
	profile.KeepHeaders, profile.AnyHeaders = true, true
	client, err := redo.New(redo.WithStore(st), redo.WithScope("gateway"), redo.WithProfile(profile))
	if err != nil {
		fmt.Println(err)
		return
	}
	for op, err := range client.Pending(context.Background()) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(op.Method, op.URL, op.Effect)
	}
	// Output: POST http://127.0.0.1:1/charges unknown
}

// The gateway calls its upstream with its own credentials, so it can continue any request after a crash.
func ExampleClient() {
	serviceToken := func() string { return "secret" }
	credentials := gateway.Client(redo.WithCredentials(func(r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+serviceToken())
		return nil
	}))
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Header.Get("Authorization"))
	}))
	defer upstream.Close()
	target, _ := url.Parse(upstream.URL)
	g, err := gateway.New(target, memstore.New(), credentials,
		gateway.Principal(func(*http.Request) string { return "ann" }),
		gateway.Secret([]byte("at least 16 bytes, from a vault")),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	tap := httptest.NewRequest(http.MethodPost, "/charges", strings.NewReader("{}"))
	tap.Header.Set("Idempotency-Key", "tap-1")
	g.ServeHTTP(httptest.NewRecorder(), tap)
	// Output: Bearer secret
}
