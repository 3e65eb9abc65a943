package orms

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/Masterminds/squirrel"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jmoiron/sqlx"

	"github.com/redo-go/redo/store/sqltx"
)

// dbtx is the interface that sqlc generates, and pgxDBTX the one that it generates for pgx.
type (
	dbtx interface {
		ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
		PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
		QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	}
	pgxDBTX interface {
		Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error)
		Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
		QueryRow(ctx context.Context, query string, args ...any) pgx.Row
	}
)

var (
	_ dbtx    = (*sqltx.Tx)(nil)
	_ pgxDBTX = pgx.Tx(nil)
)

// sqlx has no function over another transaction than its own. Its parts do: named arguments, and rows as structs.
func newSqlx(_ *testing.T, e engine) library {
	binding := map[string]int{"postgres": sqlx.DOLLAR, "mysql": sqlx.QUESTION, "sqlite": sqlx.QUESTION}[e.name]
	return library{insert: func(ctx context.Context, tx *sqltx.Tx, item string) error {
		order := map[string]any{"item": item}
		query, args, err := sqlx.Named("INSERT INTO orders (item) VALUES (:item)", order)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, sqlx.Rebind(binding, query), args...); err != nil {
			return err
		}
		query, args, err = sqlx.Named("SELECT id, item FROM orders WHERE item = :item", order)
		if err != nil {
			return err
		}
		rows, err := tx.QueryContext(ctx, sqlx.Rebind(binding, query), args...)
		if err != nil {
			return err
		}
		var got []struct {
			ID   int64
			Item string
		}
		if err := sqlx.StructScan(rows, &got); err != nil {
			return err
		}
		return found(len(got))
	}}
}

func newSquirrel(_ *testing.T, e engine) library {
	sq := squirrel.StatementBuilder
	if e.name == "postgres" {
		sq = sq.PlaceholderFormat(squirrel.Dollar)
	}
	return library{insert: func(ctx context.Context, tx *sqltx.Tx, item string) error {
		if _, err := sq.Insert("orders").Columns("item").Values(item).RunWith(tx).ExecContext(ctx); err != nil {
			return err
		}
		var n int
		row := sq.Select("COUNT(*)").From("orders").Where(squirrel.Eq{"item": item}).RunWith(tx).QueryRowContext(ctx)
		if err := row.Scan(&n); err != nil {
			return err
		}
		return found(n)
	}}
}

func found(n int) error {
	if n != 1 {
		return errors.New("the order is not in the transaction")
	}
	return nil
}
