package memstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// The operations that a crash of their owner left pending are listed, oldest first.
func ExampleStore_Pending() {
	ctx := context.Background()
	st := memstore.New()
	defer st.Close()

	for _, key := range []string{"refund-1", "refund-2"} {
		_, err := st.Reserve(ctx, store.Claim{ID: store.ID{Scope: "refunds", Key: key}, Retention: 24 * time.Hour})
		if err != nil {
			fmt.Println(err)
		}
	}
	for r, err := range st.Pending(ctx, "refunds") {
		fmt.Println(r.ID, r.State, err)
	}
	// Output:
	// "refunds"/"refund-1" pending <nil>
	// "refunds"/"refund-2" pending <nil>
}
