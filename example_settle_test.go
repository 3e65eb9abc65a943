package redo_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

// unsure starts a provider that makes a refund, loses the response, and then only reports that it does not know the
// outcome.
func unsure() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Error-Code", string(taxonomy.OutcomeUnknown))
		w.WriteHeader(http.StatusConflict)
	}))
}

// The probe reads the resource back when the server can't tell the outcome any more.
func ExampleWithProbe() {
	api := unsure()
	defer api.Close()

	probe := func(_ context.Context, op redo.Operation) (redo.Finding, error) {
		// A real probe sends a GET for the refund with op.Name as its reference.
		return redo.Finding{Effect: redo.Applied, Evidence: "GET /refunds?ref=" + op.Name + " returned rf_1"}, nil
	}
	client, err := redo.New(redo.WithStore(memstore.New()), redo.WithProbe(probe))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := redo.WithOperation(context.Background(), "ch_9ab")
	_, err = redo.Call[struct{}](ctx, client, "POST", api.URL, 1000)
	if e, ok := errors.AsType[*redo.Error](err); ok {
		fmt.Println("effect:", e.Effect)
	}
	op, err := client.Find(ctx, "ch_9ab")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(op.State, "by", op.Finding.By+":", op.Finding.Evidence)
	// Output:
	// effect: applied
	// complete by probe: GET /refunds?ref=ch_9ab returned rf_1
}

// A person has looked at the provider's dashboard. A later finding that contradicts the first one changes nothing.
func ExampleClient_Settle() {
	api := unsure()
	defer api.Close()

	client, err := redo.New(redo.WithStore(memstore.New()))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	_, err = redo.Call[struct{}](redo.WithOperation(ctx, "ch_9ab"), client, "POST", api.URL, 1000)
	if e, ok := errors.AsType[*redo.Error](err); ok {
		fmt.Println("effect:", e.Effect)
	}
	finding := redo.Finding{Effect: redo.NotApplied, Evidence: "the dashboard has no refund of ch_9ab", By: "ada"}
	fmt.Println(client.Settle(ctx, "ch_9ab", finding))

	finding = redo.Finding{Effect: redo.Applied, Evidence: "the bank's statement has one", By: "grace"}
	fmt.Println("contradiction:", errors.Is(client.Settle(ctx, "ch_9ab", finding), redo.ErrContradiction))
	// Output:
	// effect: unknown
	// <nil>
	// contradiction: true
}

// A service finishes what an earlier process left pending, for as long as it runs.
func ExampleClient_ResumeEvery() {
	ops, err := boltstore.Open("payments.redo")
	if err != nil {
		log.Fatal(err)
	}
	defer ops.Close()
	client, err := redo.New(redo.WithStore(ops), redo.WithCredentials(func(r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+os.Getenv("API_TOKEN")) // credentials are never stored
		return nil
	}))
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err = client.ResumeEvery(ctx, time.Minute, func(op redo.Operation, err error) {
		log.Println("resumed", op.Name, err) // err is nil for a success
	})
	log.Println("ended:", err)
}
