package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/pgstore"
)

// leaseTTL is how long a dead process blocks a key, short so that the campaign does not wait long.
const leaseTTL = 250 * time.Millisecond

// serve is the service's process. It runs until it is killed.
func serve(ctx context.Context, args []string) error {
	if len(args) != 4 {
		return errors.New("serve wants a mode, an address, a URL and a schema")
	}
	for _, m := range modes {
		if m.name == args[0] {
			return listen(ctx, m, args[1], args[2], args[3])
		}
	}
	return fmt.Errorf("there is no mode %q", args[0])
}

func listen(ctx context.Context, m mode, address, url, schema string) error {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}
	cfg.MaxConns = 8
	cfg.ConnConfig.RuntimeParams["search_path"] = schema // where the service's own tables are
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	st, err := pgstore.New(pool, pgstore.WithSchema(schema))
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	s := &service{db: pool}
	once, err := server.New(st, append(m.options(s), server.Required(), server.SharedKeys(), server.LeaseTTL(leaseTTL), server.Wait(2*leaseTTL))...)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /refunds", once(http.HandlerFunc(s.refund)))
	srv := &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
	}
	defer context.AfterFunc(ctx, func() { _ = srv.Close() })()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// A service makes refunds: rows of its ledger.
type service struct{ db *pgxpool.Pool }

// A RefundRequest asks for a refund. Amounts are in cents.
type RefundRequest struct {
	Charge string `json:"charge"`
	Amount int    `json:"amount"`
}

// A Refund is the answer.
type Refund struct {
	ID     int64  `json:"id"`
	Charge string `json:"charge"`
	Amount int    `json:"amount"`
}

// querier is what a handler writes through: a transaction or a pool.
type querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// refund is the handler of every mode. All that the transactional one asks of it is to write through the transaction.
func (s *service) refund(w http.ResponseWriter, r *http.Request) {
	var in RefundRequest
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Amount <= 0 {
		http.Error(w, "the body is no refund", http.StatusUnprocessableEntity)
		return
	}
	ctx, db := r.Context(), querier(s.db)
	if tx, ok := server.Tx[pgx.Tx](ctx); ok {
		db = tx
	}
	key := server.Key(ctx)
	if server.TakenOver(ctx) {
		if _, err := s.db.Exec(ctx, "INSERT INTO taken_over (key) VALUES ($1)", key); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
	}
	out := Refund{Charge: in.Charge, Amount: in.Amount}
	err := db.QueryRow(ctx, "INSERT INTO ledger (key, charge, amount) VALUES ($1, $2, $3) RETURNING id", key, in.Charge, in.Amount).Scan(&out.ID)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError) // releases the key: the retry runs this again
		return
	}
	answer(out).ServeHTTP(w, r)
}

// recover looks for what a process that died has done for the key. A nil handler says that it had done nothing.
func (s *service) recover(ctx context.Context, key string) (http.Handler, error) {
	if _, err := s.db.Exec(ctx, "INSERT INTO taken_over (key) VALUES ($1)", key); err != nil {
		return nil, err
	}
	var out Refund
	err := s.db.QueryRow(ctx, "SELECT id, charge, amount FROM ledger WHERE key = $1", key).Scan(&out.ID, &out.Charge, &out.Amount)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return answer(out), nil
}

func answer(out Refund) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(out) // a client that is gone asks again
	})
}
