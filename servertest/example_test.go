package servertest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/redo-go/redo/servertest"
)

// exampleT replaces the *testing.T of a test, and prints its logs and errors.
type exampleT struct {
	testing.TB
	cleanups []func()
}

func (t *exampleT) Helper()                           {}
func (t *exampleT) Cleanup(fn func())                 { t.cleanups = append(t.cleanups, fn) }
func (t *exampleT) Logf(format string, args ...any)   { fmt.Printf(format+"\n", args...) }
func (t *exampleT) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (t *exampleT) Fatal(args ...any)                 { fmt.Println(args...) }

func (t *exampleT) end() {
	for _, fn := range t.cleanups {
		fn()
	}
}

// refund requests a refund under a key.
func refund(c *http.Client, url, key string) (string, error) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url+"/refunds",
		strings.NewReader(`{"amount":1000}`))
	if err != nil {
		return "", err
	}
	req.Header.Set("Idempotency-Key", key)
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return fmt.Sprint(resp.StatusCode, " ", strings.TrimSpace(string(body))), err
}

// The response to a refund is lost, and the client sends the request again.
func ExampleNew() {
	t := &exampleT{} // in a test: its *testing.T
	defer t.end()

	srv := servertest.New(t, servertest.Script("k1", servertest.ResetAfterEffect(), servertest.OK()))

	_, err := refund(http.DefaultClient, srv.URL, "k1")
	fmt.Println("reset:", errors.Is(err, syscall.ECONNRESET))
	answer, err := refund(http.DefaultClient, srv.URL, "k1")
	fmt.Println(answer, err)

	srv.Ledger().AssertEffects(t, "k1", 1)
	// Output:
	// reset: true
	// 201 {"id":"rf_1"} <nil>
}

// A step that no request comes for fails the test: here the client gives up where it should have asked again.
func ExampleScript() {
	t := &exampleT{}
	defer t.end()

	srv := servertest.NewInMemory(t, servertest.Script("k1",
		servertest.RateLimited(servertest.RetryAfterSeconds(2)),
		servertest.OK(),
	))

	answer, err := refund(srv.Client(), srv.URL, "k1")
	fmt.Println(answer[:3], err)
	// Output:
	// 429 <nil>
	// servertest: key "k1", step 2, OK(): no request came for it
}

// Without deduplication a lost response is a second refund.
func ExampleLedger() {
	t := &exampleT{}
	defer t.end()

	srv := servertest.NewInMemory(t, servertest.Bare(),
		servertest.Script("k1", servertest.StatusAfterEffect(502), servertest.OK()))

	for range 2 {
		answer, err := refund(srv.Client(), srv.URL, "k1")
		fmt.Println(answer, err)
	}

	for _, effect := range srv.Ledger().Entries() {
		fmt.Println(effect.ID, effect.Key, effect.Method, effect.Path)
	}
	fmt.Println("duplicates:", srv.Ledger().Duplicates())
	// Output:
	// 502 Bad Gateway <nil>
	// 201 {"id":"rf_2"} <nil>
	// rf_1 k1 POST /refunds
	// rf_2 k1 POST /refunds
	// duplicates: [k1]
}

// Your own handler reports when its work is done.
func ExampleEffect() {
	t := &exampleT{}
	defer t.end()

	srv := servertest.NewInMemory(t, servertest.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		effect, err := servertest.Effect(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, "booked as "+effect.ID)
	})))

	answer, err := refund(srv.Client(), srv.URL, "k1")
	fmt.Println(answer, err)
	// Output: 200 booked as rf_1 <nil>
}
