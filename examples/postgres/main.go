// Postgres commits a refund, its record and the response in one transaction. The handler dies after its first write. In
// one transaction that write is undone, and the retry makes the only refund. In two steps the write stays, and the
// retry makes another refund.
//
//	$ go run ./examples/postgres
//	one transaction: refunds: 1
//	two steps: refunds: 2
//
// It uses the Postgres at the URL in its argument or in REDO_TEST_POSTGRES, or else the one on this machine. It
// makes a schema and drops it at the end. "go run ./verify/crash -store postgres" kills such a service many times, and
// counts its effects.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redo-go/redo/server"
)

func main() {
	url := cmp.Or(os.Getenv("REDO_TEST_POSTGRES"), "postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable")
	if len(os.Args) > 1 {
		url = os.Args[1]
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := demo(ctx, url); err != nil {
		log.Fatal(err)
	}
}

// A bank makes refunds: rows of a table.
type bank struct {
	db   *pgxpool.Pool
	dies bool // the next handler dies after its write
}

// A querier is a transaction or a pool.
type querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// createRefund writes through the middleware's transaction. A 5xx and a panic roll it back. Any other response commits
// it, and is sent after the commit.
func (b *bank) createRefund(w http.ResponseWriter, r *http.Request) {
	var in struct{ Amount int }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Amount <= 0 {
		http.Error(w, "the amount must be positive", http.StatusUnprocessableEntity)
		return
	}
	db := querier(b.db)
	if tx, ok := server.Tx[pgx.Tx](r.Context()); ok {
		db = tx
	}
	if _, err := db.Exec(r.Context(), "INSERT INTO refunds (amount) VALUES ($1)", in.Amount); err != nil {
		http.Error(w, "try again", http.StatusServiceUnavailable)
		return
	}
	if b.dies {
		b.dies = false
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(http.StatusCreated)
}

// customer returns the authenticated caller. A real service checks the password before the middleware runs.
func customer(r *http.Request) string {
	name, _, _ := r.BasicAuth()
	return name
}
