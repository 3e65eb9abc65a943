package readme

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/store/storetest"
	"github.com/redo-go/redo/taxonomy"
)

type (
	Refund        struct{ ID string }
	RefundRequest struct {
		Charge string
		Amount int
	}
	Charge        struct{ ID string }
	ChargeRequest struct{ Amount int }
)

// refund is the README's first snippet, followed by the ones about errors and about pending operations.
func refund(ctx context.Context, url string) error {
	ops, err := boltstore.Open("payments.redo") // operations survive a crash
	if err != nil {
		return err
	}
	defer ops.Close()
	client, err := redo.New(redo.WithStore(ops))
	if err != nil {
		return err
	}
	ctx = redo.WithOperation(ctx, "refund:ch_9ab:1000") // same name, same key
	refund, err := redo.Call[Refund](ctx, client, "POST", url, RefundRequest{Charge: "ch_9ab", Amount: 1000})
	say(refund, err)
	return resume(ctx, client)
}

func say(refund Refund, err error) {
	var e *redo.Error
	switch {
	case err == nil:
		fmt.Println("refunded:", refund.ID)
	case errors.Is(err, taxonomy.PayloadMismatch):
		fmt.Println("a bug: this name was used for another refund")
	case redo.SafeToRetry(err):
		fmt.Println("call again, now or tomorrow: same operation, same key")
	case errors.As(err, &e) && e.Effect == redo.NotApplied:
		fmt.Println("nothing happened:", e.Code)
	default:
		fmt.Println("find out what happened, then client.Settle the operation")
	}
}

func resume(ctx context.Context, client *redo.Client) error {
	for op, err := range client.Pending(ctx) {
		if err != nil {
			return err
		}
		resp, err := client.Resume(ctx, op) // the stored request, under the stored key
		if err != nil {
			return err
		}
		resp.Body.Close()
	}
	return nil
}

// inEmptyDirectory runs f where its files can be left.
func inEmptyDirectory(f func() error) error {
	dir, err := os.MkdirTemp("", "redo-readme-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	before, err := os.Getwd()
	if err != nil {
		return err
	}
	if err := os.Chdir(dir); err != nil {
		return err
	}
	defer os.Chdir(before)
	return f()
}

// Example_client runs the client's snippets against the README's own server. First the server responds to every
// request with 503, so that the operation stays pending. Then it has come back.
func Example_client() {
	down := true
	service := refunds()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		service.ServeHTTP(w, r)
	}))
	defer srv.Close()
	err := inEmptyDirectory(func() error {
		if err := refund(context.Background(), srv.URL+"/refunds"); redo.CodeOf(err) != taxonomy.Unavailable {
			return fmt.Errorf("the server is down: %w", err)
		}
		down = false
		return refund(context.Background(), srv.URL+"/refunds")
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// call again, now or tomorrow: same operation, same key
	// refunded: rf_1
}

func refunds() http.Handler {
	var runs int
	mux := http.NewServeMux()
	once := server.Middleware(memstore.New(), server.Required(), server.SharedKeys())
	mux.Handle("POST /refunds", once(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		runs++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"ID":"rf_%d"}`, runs)
	})))
	return mux
}

func Example_errors() {
	say(Refund{}, &redo.Error{Code: taxonomy.PayloadMismatch, Effect: redo.NotApplied})
	say(Refund{}, &redo.Error{Code: taxonomy.Forbidden, Effect: redo.NotApplied})
	say(Refund{}, &redo.Error{Code: taxonomy.KeyExpired})
	// Output:
	// a bug: this name was used for another refund
	// nothing happened: AUTH.forbidden
	// find out what happened, then client.Settle the operation
}

// serve is the README's server. It is compiled here, and its parts run in Example_server.
func serve(st store.Store, createRefund func(http.ResponseWriter, *http.Request)) {
	once := server.Middleware(st, server.Required(), server.Principal(customer))
	mux := http.NewServeMux()
	mux.Handle("POST /refunds", once(http.HandlerFunc(createRefund)))
	mux.Handle("POST /payments", once(http.HandlerFunc(createPayment)))
	srv := &http.Server{
		Addr: "localhost:8080", Handler: mux,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
	}
	log.Fatal(srv.ListenAndServe())
}

type accountID struct{}

// customer returns the account that authentication in front of the routes has put into the request's context.
func customer(r *http.Request) string {
	id, _ := r.Context().Value(accountID{}).(string)
	return id
}

var (
	provider    *redo.Client
	providerURL string
)

func createPayment(w http.ResponseWriter, r *http.Request) {
	ctx := redo.WithOperation(r.Context(), "charge:"+customer(r)+":"+server.Key(r.Context()))
	charge, err := redo.Call[Charge](ctx, provider, "POST", providerURL, ChargeRequest{Amount: 1000})
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable) // releases the key: the retry runs this again
		return
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"charge":%q}`, charge.ID)
}

// signedIn is the authentication in front of the routes. The user's name is the account, "account-1" without one.
func signedIn(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		account, _, ok := r.BasicAuth()
		if !ok {
			account = "account-1"
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), accountID{}, account)))
	})
}

func Example_server() {
	_ = serve
	var charges int
	charge := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		charges++
		fmt.Fprintf(w, `{"ID":"ch_%d"}`, charges)
	})
	acquirer := httptest.NewServer(server.Middleware(memstore.New(), server.Required(), server.SharedKeys())(charge))
	defer acquirer.Close()
	providerURL = acquirer.URL
	var err error
	if provider, err = redo.New(redo.WithKeys(redo.DerivedKeys("payments-live"))); err != nil {
		log.Fatal(err)
	}
	once := server.Middleware(memstore.New(), server.Required(), server.Principal(customer))
	srv := httptest.NewServer(signedIn(once(http.HandlerFunc(createPayment))))
	defer srv.Close()
	for _, account := range []string{"account-1", "account-1", "account-2"} {
		req, err := http.NewRequest("POST", srv.URL, nil)
		if err != nil {
			log.Fatal(err)
		}
		req.SetBasicAuth(account, "")
		req.Header.Set("Idempotency-Key", "tap-1") // of both customers
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(resp.StatusCode, resp.Header.Get("Idempotency-Status"))
		resp.Body.Close()
	}
	fmt.Println("charges:", charges)
	// Output:
	// 201 stored
	// 201 replayed
	// 201 stored
	// charges: 2
}

func TestOneRefundWhateverTheNetworkDoes(t *testing.T) {
	srv := servertest.New(t,
		servertest.Script("k1", servertest.ResetAfterEffect(), servertest.Status(503), servertest.OK()))
	client, err := redo.New()
	if err != nil {
		t.Fatal(err)
	}
	_, err = redo.Call[any](redo.WithKey(t.Context(), "k1"), client, "POST", srv.URL+"/refunds",
		map[string]int{"amount": 1000})
	if err != nil {
		t.Fatal(err)
	}
	srv.Ledger().AssertEffects(t, "k1", 1)
}

func TestMyStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return memstore.New() })
}
