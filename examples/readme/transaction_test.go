package readme

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore"
)

// database makes a database of this test's own, and drops it at the end. Without a Postgres the test is skipped.
func database(t *testing.T) (databaseURL string, conn *pgx.Conn) {
	t.Helper()
	base := cmp.Or(os.Getenv("REDO_TEST_POSTGRES"), "postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable")
	connecting, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	admin, err := pgx.Connect(connecting, base)
	if err != nil && os.Getenv("REDO_TEST_REQUIRE") == "" {
		t.Skip("no Postgres: ", err)
	}
	require.NoError(t, err)
	name := fmt.Sprintf("redo_readme_%d_%d", os.Getpid(), time.Now().UnixNano())
	_, err = admin.Exec(t.Context(), "CREATE DATABASE "+name)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx := context.Background()
		_, err := admin.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
		require.NoError(t, err)
		require.NoError(t, admin.Close(ctx))
	})
	u, err := url.Parse(base)
	require.NoError(t, err)
	u.Path = "/" + name
	conn, err = pgx.Connect(t.Context(), u.String())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })
	return u.String(), conn
}

// serveOrders is the README's server with one transaction a request. It calls use while it is up.
func serveOrders(ctx context.Context, databaseURL string, mux *http.ServeMux, use func(*pgstore.Store)) error {
	st, err := pgstore.Open(ctx, databaseURL, pgstore.WithMigrate())
	if err != nil {
		return err
	}
	defer st.Close()
	once := server.Middleware(st, server.Required(), server.Principal(customer), server.Transactional[pgx.Tx]())
	mux.Handle("POST /orders", once(http.HandlerFunc(createOrder)))
	use(st)
	return nil
}

func createOrder(w http.ResponseWriter, r *http.Request) {
	tx, _ := server.Tx[pgx.Tx](r.Context())
	var id int64
	err := tx.QueryRow(r.Context(), "INSERT INTO orders (article) VALUES ('shoes') RETURNING id").Scan(&id)
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable) // rolls back: the retry runs this again
		return
	}
	w.WriteHeader(http.StatusCreated) // commits the order with this response, which is sent after that
	fmt.Fprintf(w, `{"id":%d}`, id)
}

func subscribe(ctx context.Context, st *pgstore.Store, claim store.Claim) (string, bool, error) {
	out, again, err := store.Once(ctx, st, claim, func(ctx context.Context, tx pgx.Tx) (store.Outcome, error) {
		_, err := tx.Exec(ctx, "INSERT INTO orders (article) VALUES ('subscription of November')")
		return store.Outcome{Result: []byte("ordered")}, err
	})
	return string(out.Result), again, err
}

func TestAnOrderAndItsRecordCommitTogether(t *testing.T) {
	databaseURL, conn := database(t)
	_, err := conn.Exec(t.Context(), "CREATE TABLE orders (id bigserial PRIMARY KEY, article text NOT NULL)")
	require.NoError(t, err)
	mux := http.NewServeMux()
	srv := httptest.NewServer(signedIn(mux))
	defer srv.Close()
	err = serveOrders(t.Context(), databaseURL, mux, func(st *pgstore.Store) {
		for _, want := range []string{"stored", "replayed"} {
			req, err := http.NewRequest("POST", srv.URL+"/orders", nil)
			require.NoError(t, err)
			req.Header.Set("Idempotency-Key", "order-1138")
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, http.StatusCreated, resp.StatusCode)
			require.Equal(t, want, resp.Header.Get("Idempotency-Status"))
		}
		claim := store.Claim{ID: store.ID{Scope: "subscriptions", Key: "2026-11"}, Retention: time.Hour}
		for _, want := range []bool{false, true} {
			result, again, err := subscribe(t.Context(), st, claim)
			require.NoError(t, err)
			require.Equal(t, "ordered", result)
			require.Equal(t, want, again)
		}
	})
	require.NoError(t, err)
	var orders int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM orders").Scan(&orders))
	require.Equal(t, 2, orders, "one by request and one without")
}
