package sqltx_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/sqltx"
)

// A queryer is the type that functions that write should accept: sql.DB, sql.Tx and the store's Tx have it.
type queryer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func debit(ctx context.Context, q queryer, account string, cents int) error {
	_, err := q.ExecContext(ctx, "UPDATE accounts SET cents = cents - $1 WHERE id = $2", cents, account)
	return err
}

// A function that writes takes an interface, so that it runs in the store's transaction too.
func ExampleTx() {
	db := sql.OpenDB(&engine{})
	defer db.Close()
	began, err := db.Begin() // a store does this
	if err != nil {
		fmt.Println(err)
		return
	}
	tx := sqltx.New(began)
	fmt.Println(debit(context.Background(), tx, "alice", 250))
	fmt.Println(errors.Is(tx.Commit(), store.ErrTxEnded))
	// Output:
	// <nil>
	// true
}
