package store_test

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// sealed is the snippet of docs/stores.md.
func sealed(ctx context.Context, engine store.Store, current store.SealKey, id store.ID) error {
	keyring, err := store.NewKeyring(store.SealKeys{Seal: current})
	if err != nil {
		return err
	}
	st := store.Sealed(engine, keyring)
	_, err = st.Reserve(ctx, store.Claim{ID: id, Retention: 24 * time.Hour, Meta: []byte("card 4242")})
	return err
}

// The engine keeps no readable meta.
func ExampleNewKeyring() {
	ctx, engine := context.Background(), memstore.New()
	defer engine.Close()
	current := store.SealKey{ID: "2026-11", Secret: bytes.Repeat([]byte{2}, store.SealSecret)}
	id := store.ID{Scope: "POST /refunds", Key: "refund-1138"}
	fmt.Println(sealed(ctx, engine, current, id))
	kept, _ := engine.Find(ctx, id)
	fmt.Println(len(kept.Meta) > 0, bytes.Contains(kept.Meta, []byte("4242")))
	// Output:
	// <nil>
	// true false
}

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
