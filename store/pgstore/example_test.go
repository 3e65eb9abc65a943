package pgstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/store/sqltx"
	"github.com/redo-go/redo/taxonomy"
)

// A transfer and its record are one transaction. A process that dies has done both or neither. A message that is
// delivered again gets the record's outcome.
func ExampleStore_Begin() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://app@localhost/payments")
	if err != nil {
		log.Fatal(err)
	}
	st, err := pgstore.New(pool)
	if err != nil {
		log.Fatal(err)
	}
	message := []byte(`{"from":1,"to":2,"amount":100}`)
	c := store.Claim{
		ID:          store.ID{Scope: "transfers", Key: "message-1138"},
		Fingerprint: store.Raw("POST", "transfers", "", message),
		Retention:   72 * time.Hour,
	}
	out, again, err := store.Once(ctx, st, c, func(ctx context.Context, tx pgx.Tx) (store.Outcome, error) {
		if _, err := tx.Exec(ctx, "UPDATE accounts SET balance = balance - 100 WHERE id = 1"); err != nil {
			return store.Outcome{}, err
		}
		_, err := tx.Exec(ctx, "UPDATE accounts SET balance = balance + 100 WHERE id = 2")
		return store.Outcome{Result: []byte("receipt")}, err
	})
	switch {
	case errors.Is(err, taxonomy.InFlight): // another process runs it: try again later
	case err != nil:
		log.Fatal(err)
	default:
		fmt.Println(string(out.Result), again)
	}
}

// A program that uses database/sql gets a *sqltx.Tx, which has the methods of *sql.Tx.
func ExampleNewSQL() {
	ctx := context.Background()
	db, err := sql.Open("pgx", "postgres://app@localhost/payments") // with github.com/jackc/pgx/v5/stdlib imported
	if err != nil {
		log.Fatal(err)
	}
	st, err := pgstore.NewSQL(db)
	if err != nil {
		log.Fatal(err)
	}
	c := store.Claim{ID: store.ID{Key: "order-7"}, Retention: 72 * time.Hour}
	_, _, err = store.Once(ctx, st, c, func(ctx context.Context, tx *sqltx.Tx) (store.Outcome, error) {
		_, err := tx.ExecContext(ctx, "INSERT INTO ledger (order_id, amount) VALUES ($1, $2)", 7, 100)
		return store.Outcome{}, err
	})
	if err != nil {
		log.Fatal(err)
	}
}
