package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/pgstore"
)

// demo makes refunds in both modes, in a new schema.
func demo(ctx context.Context, url string) (err error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}
	schema := "redo_example_" + strings.ToLower(rand.Text())
	cfg.ConnConfig.ConnectTimeout, cfg.ConnConfig.RuntimeParams["search_path"] = 5*time.Second, schema
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer pool.Close()
	records, err := pgstore.Migration(pgstore.WithSchema(schema)) // or hand it to your migration tool
	if err != nil {
		return err
	}
	_, err = pool.Exec(ctx, "CREATE SCHEMA "+schema+"; CREATE TABLE "+schema+".refunds (amount int NOT NULL);"+records)
	if err != nil {
		return fmt.Errorf("start a Postgres, or name one: %w", err)
	}
	defer func() {
		_, dropped := pool.Exec(context.WithoutCancel(ctx), "DROP SCHEMA "+schema+" CASCADE")
		err = errors.Join(err, dropped)
	}()
	st, err := pgstore.New(pool, pgstore.WithSchema(schema))
	if err != nil {
		return err
	}
	err = try(ctx, st, pool, "one transaction", server.Transactional[pgx.Tx]())
	return errors.Join(err, try(ctx, st, pool, "two steps"))
}

// try sends a request whose handler dies, sends it again, and counts the refunds.
func try(ctx context.Context, st *pgstore.Store, pool *pgxpool.Pool, mode string, opts ...server.Option) error {
	opts = append(opts, server.Required(), server.Principal(customer), server.Route(mode))
	once, err := server.New(st, opts...)
	if err != nil {
		return err
	}
	srv := httptest.NewServer(once(http.HandlerFunc((&bank{pool, true}).createRefund)))
	defer srv.Close()
	client, err := redo.New(redo.WithCredentials(func(r *http.Request) error {
		r.SetBasicAuth("alice", "secret")
		return nil
	}))
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	_, err = redo.Call[any](redo.WithKey(ctx, "refund-1"), client, "POST", srv.URL, map[string]int{"amount": 1000})
	if err != nil {
		return err
	}
	deleted, err := pool.Exec(ctx, "DELETE FROM refunds")
	fmt.Printf("%s: refunds: %d\n", mode, deleted.RowsAffected())
	return err
}
