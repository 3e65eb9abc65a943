package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/redis/rueidis"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/redisstore"
)

// A program learns at its start that no engine is up, and why, before it has taken a request. The same error, found in
// the same way, comes from every call when the engine goes down later.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	_, err := redisstore.Open(ctx, "redis://:secret@127.0.0.1:1/0") // no server listens there
	fmt.Println("unavailable:", errors.Is(err, store.ErrUnavailable))

	_, err = redisstore.Open(ctx, "localhost:6379")
	fmt.Println("invalid:", errors.Is(err, store.ErrInvalid))
	// Output:
	// unavailable: true
	// invalid: true
}

// One process reserves, works and completes; every later one gets the result, wherever it runs.
func ExampleOpen() {
	ctx := context.Background()
	st, err := redisstore.Open(ctx, "redis://localhost:6379/0", redisstore.WithPrefix("payments"))
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()

	g, err := st.Reserve(ctx, store.Claim{
		ID:        store.ID{Scope: "refunds", Key: "refund:ch_9ab:1000"},
		Lease:     30 * time.Second,
		Retention: 24 * time.Hour,
	})
	if err != nil {
		log.Fatal(err)
	}
	if g.Verdict.Owned() {
		err = st.Complete(ctx, g.Lease, store.Outcome{Result: []byte("refunded")})
	}
	fmt.Println(g.Verdict, err)
}

// A client that the program has anyway serves the store too. The program closes it, after the store.
func ExampleNew() {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{"sentinel-1:26379", "sentinel-2:26379"},
		Sentinel:    rueidis.SentinelOption{MasterSet: "records"},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	st, err := redisstore.New(context.Background(), client)
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()

	http.HandleFunc("GET /ready", func(w http.ResponseWriter, r *http.Request) {
		if err := st.Check(r.Context()); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
}
