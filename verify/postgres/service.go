package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redo-go/redo/internal/stage"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/pgstore"
)

// leaseTTL is the time for which a dead process blocks a key. It is short so that the campaign does not wait long.
const leaseTTL = 250 * time.Millisecond

// A role is the part of a process.
type role struct {
	Mode    string `json:"mode"`
	Address string `json:"address"`
	URL     string `json:"url"` // of the database
	Schema  string `json:"schema"`
}

// serve is the service's process. It runs until it is killed.
func serve(r role) error {
	i := slices.IndexFunc(modes, func(m mode) bool { return m.name == r.Mode })
	if i < 0 {
		return fmt.Errorf("there is no mode %q", r.Mode)
	}
	cfg, err := pgxpool.ParseConfig(r.URL)
	if err != nil {
		return err
	}
	cfg.MaxConns = 8
	cfg.ConnConfig.RuntimeParams["search_path"] = r.Schema // where the service's own tables are
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	st, err := pgstore.New(pool, pgstore.WithSchema(r.Schema))
	if err != nil {
		return err
	}
	s := &service{db: pool}
	once, err := server.New(st, append(modes[i].options(s), server.Required(), server.SharedKeys(),
		server.LeaseTTL(leaseTTL), server.Wait(2*leaseTTL))...)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /refunds", once(http.HandlerFunc(s.refund)))
	return stage.Serve(r.Address, "service", mux)
}

// A service makes refunds: rows of its ledger.
type service struct{ db *pgxpool.Pool }

// A RefundRequest is the body of a refund's request. Amounts are in cents.
type RefundRequest struct {
	Charge string `json:"charge"`
	Amount int    `json:"amount"`
}

// A Refund is the body of the response.
type Refund struct {
	ID     int64  `json:"id"`
	Charge string `json:"charge"`
	Amount int    `json:"amount"`
}

// A querier runs the handler's statements: a transaction or a pool.
type querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// refund is the handler of every mode. In the transactional mode it writes through the transaction. Nothing else
// differs.
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
	err := db.QueryRow(ctx, "INSERT INTO ledger (key, charge, amount) VALUES ($1, $2, $3) RETURNING id",
		key, in.Charge, in.Amount).Scan(&out.ID)
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError) // releases the key: the retry runs this again
		return
	}
	answer(out).ServeHTTP(w, r)
}

// recover looks for the effect of a process that died with the key. A nil handler means that there is none.
func (s *service) recover(ctx context.Context, key string) (http.Handler, error) {
	if _, err := s.db.Exec(ctx, "INSERT INTO taken_over (key) VALUES ($1)", key); err != nil {
		return nil, err
	}
	var out Refund
	row := s.db.QueryRow(ctx, "SELECT id, charge, amount FROM ledger WHERE key = $1", key)
	err := row.Scan(&out.ID, &out.Charge, &out.Amount)
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
		_ = json.NewEncoder(w).Encode(out) // a client that is gone repeats the request
	})
}
