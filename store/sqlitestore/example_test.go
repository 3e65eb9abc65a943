package sqlitestore_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/sqlitestore"
	"github.com/redo-go/redo/store/sqltx"
)

// A debit and its record are one transaction. A message that is delivered again gets the receipt of the first time.
func ExampleStore_Begin() {
	dir, err := os.MkdirTemp("", "redo")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "payments.db")
	ctx := context.Background()
	st, err := sqlitestore.Open(ctx, path, sqlitestore.WithMigrate())
	if err != nil {
		log.Fatal(err)
	}
	defer st.Close()
	db, err := sql.Open("sqlite", path) // the program's own connections
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	_, err = db.Exec("CREATE TABLE accounts (id TEXT, cents INTEGER); INSERT INTO accounts VALUES ('alice', 1000)")
	if err != nil {
		log.Fatal(err)
	}

	message := []byte(`{"from":"alice","cents":250}`)
	claim := store.Claim{
		ID:          store.ID{Scope: "debits", Key: "message-1138"},
		Fingerprint: store.Raw("POST", "debits", "", message),
		Retention:   72 * time.Hour,
	}
	for range 2 {
		out, again, err := store.Once(ctx, st, claim, func(ctx context.Context, tx *sqltx.Tx) (store.Outcome, error) {
			_, err := tx.ExecContext(ctx, "UPDATE accounts SET cents = cents - 250 WHERE id = 'alice'")
			return store.Outcome{Result: []byte("receipt")}, err
		})
		if err != nil {
			log.Fatal(err)
		}
		var cents int
		if err := db.QueryRow("SELECT cents FROM accounts WHERE id = 'alice'").Scan(&cents); err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(out.Result), again, cents)
	}
	// Output:
	// receipt false 750
	// receipt true 750
}
