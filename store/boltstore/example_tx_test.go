package boltstore_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
)

var balances = []byte("balances") // the application's bucket, in the same file

var errNoAccount = errors.New("no such account")

// balance reads an account.
func balance(tx *boltstore.Tx, account string) (uint64, error) {
	b := tx.Bucket(balances)
	if b == nil || b.Get([]byte(account)) == nil {
		return 0, errNoAccount
	}
	return binary.BigEndian.Uint64(b.Get([]byte(account))), nil
}

// deposit adds to an account, which it makes where there is none.
func deposit(tx *boltstore.Tx, account string, amount uint64) (uint64, error) {
	b, err := tx.CreateBucketIfNotExists(balances)
	if err != nil {
		return 0, err
	}
	old, err := balance(tx, account)
	if err != nil && !errors.Is(err, errNoAccount) {
		return 0, err
	}
	return old + amount, b.Put([]byte(account), binary.BigEndian.AppendUint64(nil, old+amount))
}

// A deposit that arrives twice is made once: the balance and the record of the deposit are one commit.
func Example_transaction() {
	dir, err := os.MkdirTemp("", "redo")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	st, err := boltstore.Open(filepath.Join(dir, "bank.redo"))
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()

	ctx := context.Background()
	claim := store.Claim{
		ID:          store.ID{Scope: "deposits", Key: "wire:2041"},
		Fingerprint: store.Raw("deposit", "alice", "", []byte("100")),
		Retention:   30 * 24 * time.Hour,
	}
	for range 2 {
		o, again, err := store.Once(ctx, st, claim, func(_ context.Context, tx *boltstore.Tx) (store.Outcome, error) {
			now, err := deposit(tx, "alice", 100)
			return store.Outcome{Result: fmt.Append(nil, "balance ", now)}, err
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s, again: %t\n", o.Result, again)
	}
	err = st.View(ctx, func(tx *boltstore.Tx) error {
		now, err := balance(tx, "alice")
		fmt.Println("alice has", now)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// balance 100, again: false
	// balance 100, again: true
	// alice has 100
}
