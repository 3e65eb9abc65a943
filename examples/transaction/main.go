// Transaction commits the effect, its record and the response together. A refund is a row of the service's own ledger,
// and the middleware's record is in the same file. The first handler fails after it has written: everything is undone,
// and the retry writes the row once. No crash leaves the row without its record.
//
//	$ go run ./examples/transaction
//	500 try again
//	201 stored refund 1
//	201 replayed refund 1
//	rows in the ledger: 1
//
// Over Postgres the transaction is a pgx.Tx: see examples/postgres. Over MySQL and SQLite it is a *sqltx.Tx.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/boltstore"
)

func main() {
	dir, err := os.MkdirTemp("", "redo-transaction-")
	if err == nil {
		err = errors.Join(demo(filepath.Join(dir, "bank.redo")), os.RemoveAll(dir))
	}
	if err != nil {
		log.Fatal(err)
	}
}

// newBank returns the service over a file that holds its ledger and its records.
func newBank(st *boltstore.Store) (http.Handler, error) {
	once, err := server.New(st, server.Required(), server.Principal(customer), server.Transactional[*boltstore.Tx]())
	if err != nil {
		return nil, err
	}
	return once(http.HandlerFunc(createRefund)), nil
}

// customer returns the authenticated caller. A real service checks the password before the middleware runs.
func customer(r *http.Request) string {
	name, _, _ := r.BasicAuth()
	return name
}

var failures = 1 // a stand-in for the disk that is full, or the deadlock

// createRefund writes through the middleware's transaction. A 5xx rolls it back. Any other response commits it, and is
// sent after the commit.
func createRefund(w http.ResponseWriter, r *http.Request) {
	tx, ok := server.Tx[*boltstore.Tx](r.Context())
	if !ok {
		http.Error(w, "the middleware opens no transaction", http.StatusInternalServerError)
		return
	}
	id, err := enter(tx, r.Body)
	if err == nil && failures > 0 {
		failures--
		err = errors.New("the row is written, and the transaction fails")
	}
	if err != nil {
		http.Error(w, "try again", http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "refund %d", id)
}

// enter writes a row of the ledger, and returns its number.
func enter(tx *boltstore.Tx, body io.Reader) (uint64, error) {
	row, err := io.ReadAll(body)
	if err != nil {
		return 0, err
	}
	ledger, err := tx.CreateBucketIfNotExists([]byte("ledger"))
	if err != nil {
		return 0, err
	}
	id, err := ledger.NextSequence()
	if err != nil {
		return 0, err
	}
	return id, ledger.Put([]byte(strconv.FormatUint(id, 10)), row)
}

// demo sends a request three times, and counts the rows.
func demo(file string) error {
	st, err := boltstore.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	bank, err := newBank(st)
	if err != nil {
		return err
	}
	for range 3 {
		r := httptest.NewRequest(http.MethodPost, "/refunds", strings.NewReader(`{"charge":"ch_9ab","amount":1000}`))
		r.SetBasicAuth("alice", "secret")
		r.Header.Set("Idempotency-Key", "refund-1")
		w := httptest.NewRecorder()
		bank.ServeHTTP(w, r)
		fmt.Println(w.Code, strings.TrimSpace(w.Header().Get("Idempotency-Status")+" "+w.Body.String()))
	}
	return st.View(context.Background(), func(tx *boltstore.Tx) error {
		fmt.Println("rows in the ledger:", tx.Bucket([]byte("ledger")).Stats().KeyN)
		return nil
	})
}
