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
	"github.com/redo-go/redo/taxonomy"
)

// A transfer and its record are one transaction: a process that dies has done both or neither, and a message that is
// delivered again is answered from the record.
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
	case errors.Is(err, taxonomy.InFlight): // another process is at it: later
	case err != nil:
		log.Fatal(err)
	default:
		fmt.Println(string(out.Result), again)
	}
}

// A program that uses database/sql gets a *sql.Tx.
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
	_, _, err = store.Once(ctx, st, c, func(ctx context.Context, tx *sql.Tx) (store.Outcome, error) {
		_, err := tx.ExecContext(ctx, "INSERT INTO ledger (order_id, amount) VALUES ($1, $2)", 7, 100)
		return store.Outcome{}, err
	})
	if err != nil {
		log.Fatal(err)
	}
}

// The orders carry their keys themselves; a retry gets the order that its first try made.
func ExampleInsertKeyed() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://app@localhost/shop")
	if err != nil {
		log.Fatal(err)
	}
	type Order struct {
		ID     int64
		Amount int
	}
	key, amount := "8f14e45f", 100
	row, inserted, err := pgstore.InsertKeyed(ctx, pool, pgstore.KeyedRow[Order]{
		Constraint: "orders_idempotency_key_key",
		Insert: func(ctx context.Context, tx pgx.Tx) (o Order, err error) {
			err = tx.QueryRow(ctx, `INSERT INTO orders (idempotency_key, amount) VALUES ($1, $2) RETURNING id, amount`,
				key, amount).Scan(&o.ID, &o.Amount)
			return o, err
		},
		Find: func(ctx context.Context, tx pgx.Tx) (o Order, err error) {
			err = tx.QueryRow(ctx, `SELECT id, amount FROM orders WHERE idempotency_key = $1`, key).Scan(&o.ID, &o.Amount)
			return o, err
		},
		Same: func(found Order) bool { return found.Amount == amount },
	})
	if errors.Is(err, taxonomy.PayloadMismatch) {
		log.Fatal("the key was used for another order")
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(row.ID, inserted)
}
