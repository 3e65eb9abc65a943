package readme

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/profile"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

// resumeInTheBackground is the README's way for a service.
func resumeInTheBackground(ctx context.Context, client *redo.Client) {
	go client.ResumeEvery(ctx, time.Minute, func(op redo.Operation, err error) {
		log.Println("resumed", op.Name, err) // err is nil for a success
	})
}

func TestAServiceResumesWhatIsPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.ResetAfterEffect()))
		once := redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1})
		client, err := redo.New(redo.WithStore(memstore.New()), redo.WithTransport(srv.Transport()), once)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		named := redo.WithOperation(ctx, "refund:ch_9ab:1000")
		_, err = redo.Call[any](named, client, "POST", srv.URL, RefundRequest{Amount: 1000})
		require.True(t, redo.SafeToRetry(err))
		resumeInTheBackground(ctx, client)
		time.Sleep(2 * time.Minute)
		op, err := client.Find(ctx, "refund:ch_9ab:1000")
		require.NoError(t, err)
		require.Equal(t, store.StateComplete, op.State)
		require.Len(t, srv.Requests(), 2)
		stop()
		synctest.Wait()
	})
}

// bankOfRefunds finds refunds by a reference of the caller's.
type bankOfRefunds map[string]string

func (b bankOfRefunds) RefundOf(_ context.Context, reference string) (string, error) {
	id := b[reference]
	if id == "closed" {
		return "", errors.New("the bank is closed")
	}
	return id, nil
}

func newProbing(ops store.Store, bank bankOfRefunds) (*redo.Client, error) {
	probe := func(ctx context.Context, op redo.Operation) (redo.Finding, error) {
		id, err := bank.RefundOf(ctx, op.Name)
		switch {
		case err != nil:
			return redo.Finding{}, err // undecided: the operation stays as it is
		case id == "":
			return redo.Finding{Effect: redo.NotApplied, Evidence: "the bank has no such refund"}, nil
		}
		return redo.Finding{Effect: redo.Applied, Evidence: "the bank has refund " + id}, nil
	}
	client, err := redo.New(redo.WithStore(ops), redo.WithProbe(probe))
	return client, err
}

func settle(ctx context.Context, client *redo.Client) (err error) {
	err = client.Settle(ctx, "refund:ch_9ab:1000", redo.Finding{
		Effect: redo.Applied, Evidence: "refund rf_1 in the bank's dashboard", By: "amira",
	})
	return err
}

// unknowing is a service that never learns the effect of its first request.
var unknowing = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Error-Code", string(taxonomy.OutcomeUnknown))
	w.WriteHeader(http.StatusConflict)
})

func TestTheProbeSettlesWhatStaysUnknown(t *testing.T) {
	for _, c := range []struct {
		refund string
		state  store.State
		effect redo.Effect
	}{
		{"rf_1", store.StateComplete, redo.Applied},
		{"", store.StateFailed, redo.NotApplied},
		{"closed", store.StatePending, redo.EffectUnknown},
	} {
		t.Run(c.effect.String(), func(t *testing.T) {
			srv := httptest.NewServer(unknowing)
			defer srv.Close()
			client, err := newProbing(memstore.New(), bankOfRefunds{"refund:ch_9ab:1000": c.refund})
			require.NoError(t, err)
			ctx := redo.WithOperation(t.Context(), "refund:ch_9ab:1000")
			_, err = redo.Call[Refund](ctx, client, "POST", srv.URL, RefundRequest{Amount: 1000})
			var e *redo.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, c.effect, e.Effect)
			op, err := client.Find(t.Context(), "refund:ch_9ab:1000")
			require.NoError(t, err)
			require.Equal(t, c.state, op.State)
			if c.state != store.StatePending {
				require.NotEmpty(t, op.Finding.Evidence)
				return
			}
			require.NoError(t, settle(t.Context(), client))
			op, err = client.Find(t.Context(), "refund:ch_9ab:1000")
			require.NoError(t, err)
			require.Equal(t, "amira", op.Finding.By)
		})
	}
}

// A bankSDK is an example of any SDK. It makes a key for each call, and has its own errors.
type bankSDK struct {
	http *http.Client
	url  string
	made *int
}

func (b bankSDK) Refund(ctx context.Context, charge string, amount int) error {
	body := strings.NewReader(fmt.Sprintf(`{"charge":%q,"amount":%d}`, charge, amount))
	req, err := http.NewRequestWithContext(ctx, "POST", b.url, body)
	if err != nil {
		return err
	}
	*b.made++
	req.Header.Set("Idempotency-Key", fmt.Sprint("sdk-", *b.made))
	resp, err := b.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 400 {
		return errors.New("the bank refused")
	}
	return nil
}

func Example_transport() {
	var runs, made int
	once := server.Middleware(memstore.New(), server.Required(), server.SharedKeys())
	srv := httptest.NewServer(once(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if runs++; r.URL.Path == "/closed" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		w.WriteHeader(http.StatusCreated)
	})))
	defer srv.Close()
	client, err := redo.New(redo.WithStore(memstore.New()))
	if err != nil {
		log.Fatal(err)
	}
	refund := func(ctx context.Context, client *redo.Client, url string) {
		newBankSDK := func(c *http.Client) bankSDK { return bankSDK{c, url, &made} }
		sdk := newBankSDK(&http.Client{Transport: client.Transport()}) // or stripe-go, or any other
		ctx, report := redo.WithReport(redo.WithOperation(ctx, "refund:ch_9ab:1000"))
		err = sdk.Refund(ctx, "ch_9ab", 1000)
		if e := report.Err(); e != nil {
			fmt.Println(e.Code, e.Effect) // redo's own facts, under any error of the SDK
		}
		fmt.Println(err, runs)
	}
	refund(context.Background(), client, srv.URL)
	refund(context.Background(), client, srv.URL) // under another key of the SDK's
	other, err := redo.New(redo.WithStore(memstore.New()))
	if err != nil {
		log.Fatal(err)
	}
	refund(context.Background(), other, srv.URL+"/closed")
	// Output:
	// <nil> 1
	// <nil> 1
	// AUTH.forbidden not applied
	// the bank refused 2
}

func newForStripe(ops store.Store) (*redo.Client, error) {
	client, err := redo.New(redo.WithStore(ops), redo.WithProfile(profile.Stripe))
	return client, err
}

func TestAProfileIsAnOption(t *testing.T) {
	client, err := newForStripe(memstore.New())
	require.NoError(t, err)
	require.Equal(t, "Idempotency-Key", client.KeyHeader())
}
