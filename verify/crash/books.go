package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/store/sqltx"
)

// boltBooks are buckets beside redo's own.
func boltBooks(st *boltstore.Store) books[*boltstore.Tx] {
	return books[*boltstore.Tx]{
		add: func(_ context.Context, tx *boltstore.Tx, book string, line []byte) error {
			b, err := tx.CreateBucketIfNotExists([]byte(book))
			if err != nil {
				return err
			}
			n, err := b.NextSequence()
			if err != nil {
				return err
			}
			return b.Put(binary.BigEndian.AppendUint64(nil, n), line)
		},
		read: func(ctx context.Context, book string) (lines [][]byte, err error) {
			err = st.View(ctx, func(tx *boltstore.Tx) error {
				b := tx.Bucket([]byte(book))
				if b == nil {
					return nil
				}
				return b.ForEach(func(_, line []byte) error {
					lines = append(lines, bytes.Clone(line))
					return nil
				})
			})
			return lines, err
		},
	}
}

// booksTable makes the table of pgBooks and sqlBooks, for Postgres, MariaDB and SQLite.
const booksTable = "CREATE TABLE %sledger (book VARCHAR(20) NOT NULL, line TEXT NOT NULL);"

// pgBooks are rows of a table in the schema of the pool.
func pgBooks(pool *pgxpool.Pool) books[pgx.Tx] {
	return books[pgx.Tx]{
		add: func(ctx context.Context, tx pgx.Tx, book string, line []byte) error {
			_, err := tx.Exec(ctx, "INSERT INTO ledger (book, line) VALUES ($1, $2)", book, string(line))
			return err
		},
		read: func(ctx context.Context, book string) ([][]byte, error) {
			rows, err := pool.Query(ctx, "SELECT line FROM ledger WHERE book = $1", book)
			if err != nil {
				return nil, err
			}
			return pgx.CollectRows(rows, func(row pgx.CollectableRow) (line []byte, err error) {
				var text string
				err = row.Scan(&text)
				return []byte(text), err
			})
		},
	}
}

// sqlBooks are rows of a table in a database of database/sql.
func sqlBooks(db *sql.DB) books[*sqltx.Tx] {
	return books[*sqltx.Tx]{
		add: func(ctx context.Context, tx *sqltx.Tx, book string, line []byte) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO ledger (book, line) VALUES (?, ?)", book, string(line))
			return err
		},
		read: func(ctx context.Context, book string) (lines [][]byte, err error) {
			rows, err := db.QueryContext(ctx, "SELECT line FROM ledger WHERE book = ?", book)
			if err != nil {
				return nil, err
			}
			for rows.Next() {
				var line string
				if err := rows.Scan(&line); err != nil {
					return nil, errors.Join(err, rows.Close())
				}
				lines = append(lines, []byte(line))
			}
			return lines, errors.Join(rows.Err(), rows.Close())
		},
	}
}
