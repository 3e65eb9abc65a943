package mysqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/mysqlstore"
	"github.com/redo-go/redo/store/sqltx"
	"github.com/redo-go/redo/taxonomy"
)

// A transfer and its record are one transaction: a process that dies has done both or neither. A message that is
// delivered again gets the receipt of the first time.
func ExampleStore_Begin() {
	ctx := context.Background()
	st, err := mysqlstore.Open(ctx, "app@tcp(localhost)/payments", mysqlstore.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	message := []byte(`{"from":1,"to":2,"cents":250}`)
	claim := store.Claim{
		ID:          store.ID{Scope: "transfers", Key: "message-1138"},
		Fingerprint: store.Raw("POST", "transfers", "", message),
		Retention:   72 * time.Hour,
	}
	out, again, err := store.Once(ctx, st, claim, func(ctx context.Context, tx *sqltx.Tx) (store.Outcome, error) {
		if _, err := tx.ExecContext(ctx, "UPDATE accounts SET cents = cents - 250 WHERE id = 1"); err != nil {
			return store.Outcome{}, err
		}
		_, err := tx.ExecContext(ctx, "UPDATE accounts SET cents = cents + 250 WHERE id = 2")
		return store.Outcome{Result: []byte("receipt")}, err
	})
	switch {
	case errors.Is(err, taxonomy.InFlight): // another process does it: later
	case err != nil:
		log.Fatal(err)
	default:
		fmt.Println(string(out.Result), again)
	}
}

// The table can be made by the program's own migration tool.
func ExampleMigration() {
	text, err := mysqlstore.Migration(mysqlstore.WithTable("payments_keys"))
	if err != nil {
		log.Fatal(err)
	}
	first, _, _ := strings.Cut(text, "\n")
	fmt.Println(first)
	// Output: CREATE TABLE `payments_keys` (
}
