package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/redo-go/redo/store/mysqlstore"
	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/store/redisstore"
	"github.com/redo-go/redo/verify/internal/pgschema"
)

func openRedis(ctx context.Context, url string) (engine, error) {
	opts, err := rueidis.ParseURL(url)
	if err != nil {
		return engine{}, err
	}
	client, err := rueidis.NewClient(opts)
	if err != nil {
		return engine{}, err
	}
	st, err := redisstore.Open(ctx, url, redisstore.WithPrefix("soak-"+rand.Text()))
	if err != nil {
		client.Close()
		return engine{}, err
	}
	memory := func(ctx context.Context) (int64, error) {
		text, err := client.Do(ctx, client.B().Info().Section("memory").Build()).ToString()
		if err != nil {
			return 0, err
		}
		_, after, _ := strings.Cut(text, "used_memory:")
		used, _, _ := strings.Cut(after, "\r\n")
		return strconv.ParseInt(used, 10, 64)
	}
	return engine{st, memory, func() error {
		client.Close()
		return st.Close()
	}}, nil
}

func openPostgres(ctx context.Context, url string) (engine, error) {
	db, err := pgschema.Open(ctx, url, "choose another -store")
	if err != nil {
		return engine{}, err
	}
	schema, err := db.Create(ctx, "redo_soak_", func(schema string) (string, error) {
		return pgstore.Migration(pgstore.WithSchema(schema))
	})
	if err != nil {
		db.Close()
		return engine{}, err
	}
	st, err := pgstore.New(db.Pool, pgstore.WithSchema(schema))
	if err != nil {
		db.Close()
		return engine{}, err
	}
	tables := func(ctx context.Context) (n int64, err error) {
		err = db.Pool.QueryRow(ctx, `SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
			JOIN pg_namespace s ON s.oid = c.relnamespace WHERE s.nspname = $1 AND c.relkind = 'r'`, schema).Scan(&n)
		return n, err
	}
	return engine{st, tables, func() error {
		err := st.Close()
		db.Close()
		return err
	}}, nil
}

// openMySQL opens a store on a MariaDB that dbserver has started.
func openMySQL(ctx context.Context, url string) (engine, error) {
	db, err := sql.Open("mysql", url)
	if err != nil {
		return engine{}, err
	}
	if _, err := db.ExecContext(ctx, "CREATE DATABASE soak"); err != nil {
		return engine{}, errors.Join(err, db.Close())
	}
	st, err := mysqlstore.Open(ctx, url+"soak", mysqlstore.WithMigrate())
	if err != nil {
		return engine{}, errors.Join(err, db.Close())
	}
	tables := func(ctx context.Context) (n int64, err error) {
		err = db.QueryRowContext(ctx, `SELECT coalesce(sum(data_length + index_length), 0)
			FROM information_schema.tables WHERE table_schema = 'soak'`).Scan(&n)
		return n, err
	}
	return engine{st, tables, func() error { return errors.Join(st.Close(), db.Close()) }}, nil
}
