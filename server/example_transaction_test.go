package server_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/boltstore"
)

// The ledger's entry and the record of the response are one commit: no crash leaves the one without the other. A
// refusal is recorded, and the earlier writes are undone.
func ExampleTransactional() {
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

	createRefund := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tx, ok := server.Tx[*boltstore.Tx](r.Context())
		if !ok {
			http.Error(w, "no transaction", http.StatusInternalServerError)
			return
		}
		n, err := enter(tx, server.Key(r.Context()), "10.00 EUR")
		switch {
		case err != nil:
			http.Error(w, "try again", http.StatusInternalServerError)
		case n > 1:
			http.Error(w, "the limit of one refund is reached", http.StatusUnprocessableEntity)
		default:
			w.WriteHeader(http.StatusCreated)
		}
	})
	bank := server.Middleware(st, server.Required(), server.SharedKeys(),
		server.Transactional[*boltstore.Tx]())(createRefund)

	post(bank, "k1", `{"charge":"ch_9ab"}`)
	post(bank, "k1", `{"charge":"ch_9ab"}`)
	post(bank, "k2", `{"charge":"ch_9ab"}`)
	_ = st.View(context.Background(), func(tx *boltstore.Tx) error {
		return tx.Bucket([]byte("ledger")).ForEach(func(key, amount []byte) error {
			_, err := fmt.Printf("in the ledger: %s for %s\n", amount, key)
			return err
		})
	})
	// Output:
	// 201 stored
	// 201 replayed
	// 422 stored
	// in the ledger: 10.00 EUR for k1
}

// enter puts an entry into the ledger and returns how many there are.
func enter(tx *boltstore.Tx, key, amount string) (uint64, error) {
	ledger, err := tx.CreateBucketIfNotExists([]byte("ledger"))
	if err != nil {
		return 0, err
	}
	if err := ledger.Put([]byte(key), []byte(amount)); err != nil {
		return 0, err
	}
	return ledger.NextSequence()
}
