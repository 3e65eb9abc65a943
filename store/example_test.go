package store_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redo-go/redo/internal/ledger"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// The first caller does the work and completes the record; the second gets the result without doing anything.
func Example() {
	ctx := context.Background()
	st := memstore.New()
	defer st.Close()

	refund := func() (string, error) {
		g, err := st.Reserve(ctx, store.Claim{
			ID:          store.ID{Scope: "POST /refunds", Key: "refund-1138"},
			Fingerprint: store.Raw("POST", "/refunds", "", []byte(`{"amount":1000}`)),
			Lease:       30 * time.Second,
			Retention:   24 * time.Hour,
		})
		if err != nil {
			return "", err // the work is not done without a record
		}
		fmt.Println(g.Verdict)
		switch {
		case g.Verdict == store.Complete:
			return string(g.Record.Result), nil
		case !g.Verdict.Owned():
			return "", fmt.Errorf("try again in %v", g.Record.LeaseLeft())
		}
		result := "refunded 1000" // the work
		return result, st.Complete(ctx, g.Lease, store.Outcome{Result: []byte(result)})
	}

	for range 2 {
		result, err := refund()
		fmt.Println(result, err)
	}
	// Output:
	// acquired
	// refunded 1000 <nil>
	// complete
	// refunded 1000 <nil>
}

// An owner that was taken over finds out when it tries to move the record on, and has changed nothing.
func Example_fencing() {
	ctx := context.Background()
	st := memstore.New()
	defer st.Close()

	claim := store.Claim{ID: store.ID{Key: "order-7"}, Retention: time.Hour, Meta: []byte("step 1 done")}
	first, _ := st.Reserve(ctx, claim)
	second, _ := st.Reserve(ctx, claim) // a claim without a lease excludes no other

	fmt.Println(second.Verdict, "with", string(second.Record.Meta))
	fmt.Println(second.Lease.Fence > first.Lease.Fence)
	fmt.Println(errors.Is(st.Complete(ctx, first.Lease, store.Outcome{}), store.ErrLost))
	fmt.Println(st.Complete(ctx, second.Lease, store.Outcome{}))
	// Output:
	// taken over with step 1 done
	// true
	// true
	// <nil>
}

// A nightly job pays out once, however often and by whomever it is started: its entry in the ledger and the record of
// the run are one transaction. With pgstore T is pgx.Tx, with boltstore *boltstore.Tx; here it is that of a toy engine.
func ExampleOnce() {
	ctx := context.Background()
	st := ledger.New()
	payout := store.Claim{
		ID:        store.ID{Scope: "payouts", Key: "2030-01-02"},
		Retention: store.Forever,
	}
	for range 2 {
		out, again, err := store.Once(ctx, st, payout, func(_ context.Context, tx *ledger.Tx) (store.Outcome, error) {
			if err := tx.Add("payout of 1000"); err != nil {
				return store.Outcome{}, err // rolls back; the next call runs anew
			}
			return store.Outcome{Result: []byte("receipt 7")}, nil
		})
		fmt.Println(string(out.Result), again, err)
	}
	fmt.Println(st.Entries("payout of 1000"))
	// Output:
	// receipt 7 false <nil>
	// receipt 7 true <nil>
	// 1
}
