// Package testclient tests code that calls an API. The test server loses responses, refuses requests, and counts its
// effects. In a synctest bubble the retries wait in virtual time: the test takes milliseconds.
//
//	go test ./examples/testclient
package testclient

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store/memstore"
)

// refund is the code under test.
func refund(ctx context.Context, client *redo.Client, url, charge string, amount int) error {
	ctx = redo.WithOperation(ctx, "refund:"+charge)
	_, err := redo.Call[any](ctx, client, http.MethodPost, url+"/refunds",
		map[string]any{"charge": charge, "amount": amount})
	return err
}

// newClient returns a client over the server's connections in memory.
func newClient(t *testing.T, srv *servertest.Server) *redo.Client {
	t.Helper()
	client, err := redo.New(redo.WithStore(memstore.New()), redo.WithTransport(srv.Transport()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestARefundIsMadeOnceWhateverTheNetworkDoes(t *testing.T) {
	for name, faults := range map[string][]servertest.Fault{
		"the response is lost":       {servertest.ResetAfterEffect()},
		"the response is cut off":    {servertest.TruncatedBody(3)},
		"the API is overloaded":      {servertest.Status(503), servertest.Status(503)},
		"the request arrives twice":  {servertest.DuplicateAtOnce()},
		"the connection is stale":    {servertest.ResetBeforeRead()},
		"a proxy responds with HTML": {servertest.HTMLError(502)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.ScriptNext(faults...))
				if err := refund(t.Context(), newClient(t, srv), srv.URL, "ch_9ab", 1000); err != nil {
					t.Fatal(err)
				}
				if n := srv.Ledger().Total(); n != 1 {
					t.Errorf("%d refunds", n)
				}
			})
		})
	}
}

// Virtual time makes the wait exact.
func TestTheClientWaitsForAsLongAsTheAPIAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.RateLimited(servertest.RetryAfterSeconds(5))))
		begun := time.Now()
		if err := refund(t.Context(), newClient(t, srv), srv.URL, "ch_9ab", 1000); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(begun); waited != 5*time.Second {
			t.Errorf("it waited for %v", waited)
		}
	})
}

// The caller must learn whether it may call again.
func TestAnOutageLeavesTheRefundPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := servertest.ScriptNext(slices.Repeat([]servertest.Fault{servertest.Status(503)}, 5)...) // redo's default
		srv := servertest.NewInMemory(t, down)
		client := newClient(t, srv)
		err := refund(t.Context(), client, srv.URL, "ch_9ab", 1000)
		if !redo.SafeToRetry(err) {
			t.Fatalf("the refund can't be called again: %v", err)
		}
		if err := refund(t.Context(), client, srv.URL, "ch_9ab", 1000); err != nil { // the API is back
			t.Fatal(err)
		}
		if n := srv.Ledger().Total(); n != 1 {
			t.Errorf("%d refunds", n)
		}
	})
}
