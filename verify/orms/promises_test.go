package orms

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/sqltx"
)

// A library is an ORM or a query builder over one engine.
type library struct {
	// insert writes an order, and reads it back.
	insert func(ctx context.Context, tx *sqltx.Tx, item string) error
	// inPart runs f in a part of the transaction, which is undone if f fails. Nil: the library has none.
	inPart func(ctx context.Context, tx *sqltx.Tx, f func(tx *sqltx.Tx) error) error
}

var libraries = map[string]func(*testing.T, engine) library{
	"bun": newBun, "ent": newEnt, "gorm": newGorm, "sqlx": newSqlx, "squirrel": newSquirrel,
}

func TestEachLibraryWritesInTheTransactionOfItsRequest(t *testing.T) {
	for name, makeEngine := range map[string]func(*testing.T) engine{
		"postgres": postgres, "mariadb": mariadb, "sqlite": sqlite,
	} {
		t.Run(name, func(t *testing.T) {
			e := makeEngine(t)
			for name, makeLibrary := range libraries {
				t.Run(name, func(t *testing.T) { keepsThePromises(t, e, name, makeLibrary(t, e)) })
			}
		})
	}
}

var errUndo = errors.New("undo")

func keepsThePromises(t *testing.T, e engine, name string, lib library) {
	_, err := e.db.ExecContext(t.Context(), "DELETE FROM orders")
	require.NoError(t, err)
	do := newServer(t, e.store, name)
	create := func(status int, item string) func(context.Context, *sqltx.Tx) (int, error) {
		return func(ctx context.Context, tx *sqltx.Tx) (int, error) { return status, lib.insert(ctx, tx, item) }
	}

	first := do("bread", create(201, "bread"))
	require.Equal(t, "stored", first.Header().Get("Idempotency-Status"), first.Body)
	require.Equal(t, "replayed", do("bread", create(201, "bread")).Header().Get("Idempotency-Status"))
	require.Equal(t, []string{"bread"}, e.items(t), "a repetition writes nothing")

	require.Equal(t, 500, do("milk", create(500, "milk")).Code)
	require.Equal(t, []string{"bread"}, e.items(t), "a failure is undone")
	require.Equal(t, 201, do("milk", create(201, "milk")).Code)
	require.Equal(t, []string{"bread", "milk"}, e.items(t))

	require.Equal(t, "stored", do("salt", create(422, "salt")).Header().Get("Idempotency-Status"))
	require.Equal(t, "replayed", do("salt", create(422, "salt")).Header().Get("Idempotency-Status"))
	require.Equal(t, []string{"bread", "milk"}, e.items(t), "a refusal is recorded, and its writes are undone")

	taken := do("more bread", func(ctx context.Context, tx *sqltx.Tx) (int, error) {
		if lib.insert(ctx, tx, "bread") == nil {
			return 500, errors.New("there are two")
		}
		return 422, nil
	})
	require.Equal(t, 422, taken.Code, taken.Body)
	require.Equal(t, "stored", taken.Header().Get("Idempotency-Status"), "a statement that fails is no outage")

	partly := do("part", func(ctx context.Context, tx *sqltx.Tx) (int, error) {
		err := lib.part(ctx, tx, func(tx *sqltx.Tx) error { return errors.Join(lib.insert(ctx, tx, "oil"), errUndo) })
		if !errors.Is(err, errUndo) {
			return 500, err
		}
		return 201, lib.part(ctx, tx, func(tx *sqltx.Tx) error { return lib.insert(ctx, tx, "rice") })
	})
	require.Equal(t, 201, partly.Code, partly.Body)
	require.Equal(t, []string{"bread", "milk", "rice"}, e.items(t), "a part that fails is undone alone")

	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			status := 201 + n%2*299
			w := do(fmt.Sprint("key ", n), create(status, fmt.Sprint("sugar ", n)))
			if w.Code != status {
				t.Errorf("sugar %d: %d, %s", n, w.Code, w.Body)
			}
		})
	}
	all.Wait()
	require.Equal(t, []string{"bread", "milk", "rice", "sugar 0", "sugar 2", "sugar 4", "sugar 6"}, e.items(t),
		"no request writes in the transaction of another one")
}

// A write through the program's own pool is in another transaction.
func TestAWriteThroughThePoolStays(t *testing.T) {
	const insert = "INSERT INTO orders (item) VALUES ('bread')"
	e := postgres(t)
	w := newServer(t, e.store, "pool")("bread", func(ctx context.Context, _ *sqltx.Tx) (int, error) {
		_, err := e.db.ExecContext(ctx, insert)
		return 500, err
	})
	require.Equal(t, 500, w.Code, w.Body)
	require.Equal(t, []string{"bread"}, e.items(t))

	e = sqlite(t)
	w = newServer(t, e.store, "pool")("bread", func(ctx context.Context, _ *sqltx.Tx) (int, error) {
		_, err := e.db.ExecContext(ctx, insert)
		require.ErrorContains(t, err, "locked")
		return 500, nil
	})
	require.Equal(t, 500, w.Code, w.Body)
	require.Empty(t, e.items(t))
}

// part runs f in a part of the transaction. Without a function of the library it sets a savepoint.
func (lib library) part(ctx context.Context, tx *sqltx.Tx, f func(tx *sqltx.Tx) error) error {
	if lib.inPart != nil {
		return lib.inPart(ctx, tx, f)
	}
	if _, err := tx.ExecContext(ctx, "SAVEPOINT part"); err != nil {
		return err
	}
	err := f(tx)
	if err != nil {
		_, undo := tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT part")
		err = errors.Join(err, undo)
	}
	_, end := tx.ExecContext(ctx, "RELEASE SAVEPOINT part")
	return errors.Join(err, end)
}

type runKey struct{}

// newServer returns a function that sends a request with a key to a route over the store. The route's handler runs the
// function in the request's transaction. It sends the status that the function returns, or a 500 for an error.
func newServer[T any](t *testing.T, st store.TxStore[T], scope string) func(
	key string, run func(ctx context.Context, tx T) (status int, err error),
) *httptest.ResponseRecorder {
	t.Helper()
	mw, err := server.New(st, server.Required(), server.SharedKeys(), server.Scope(scope), server.Transactional[T]())
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("POST /orders", mw(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tx, ok := server.Tx[T](r.Context())
		if !ok {
			http.Error(w, "no transaction", http.StatusInternalServerError)
			return
		}
		run := r.Context().Value(runKey{}).(func(context.Context, T) (int, error))
		status, err := run(r.Context(), tx)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(status)
	})))
	return func(key string, run func(context.Context, T) (int, error)) *httptest.ResponseRecorder {
		ctx := context.WithValue(t.Context(), runKey{}, run)
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/orders", strings.NewReader(`{}`))
		r.Header.Set("Idempotency-Key", strings.ReplaceAll(key, " ", "-"))
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		return w
	}
}
