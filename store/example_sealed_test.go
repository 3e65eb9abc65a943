package store_test

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// The engine keeps only encrypted results. A rotation keeps the last key until the records that it sealed have expired.
func ExampleSealed() {
	ctx := context.Background()
	last := store.SealKey{ID: "2026-10", Secret: bytes.Repeat([]byte{1}, store.SealSecret)} // from the key management
	next := store.SealKey{ID: "2026-11", Secret: bytes.Repeat([]byte{2}, store.SealSecret)}
	keyring, err := store.NewKeyring(store.SealKeys{Seal: last})
	if err != nil {
		fmt.Println(err)
		return
	}
	engine := memstore.New()
	defer engine.Close()
	st := store.Sealed(engine, keyring)

	id := store.ID{Scope: "POST /refunds", Key: "refund-1138"}
	g, _ := st.Reserve(ctx, store.Claim{ID: id, Retention: 24 * time.Hour})
	_ = st.Complete(ctx, g.Lease, store.Outcome{Result: []byte("card 4242")})
	_ = keyring.Set(store.SealKeys{Seal: next, Open: []store.SealKey{last}})

	kept, _ := engine.Find(ctx, id)
	fmt.Println(bytes.Contains(kept.Result, []byte("4242")))
	opened, _ := st.Find(ctx, id)
	fmt.Println(string(opened.Result))
	// Output:
	// false
	// card 4242
}
