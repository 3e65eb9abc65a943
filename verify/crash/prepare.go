package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/redo-go/redo/outbox/pgoutbox"
	"github.com/redo-go/redo/store/mysqlstore"
	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/store/sqlitestore"
	"github.com/redo-go/redo/verify/internal/pgschema"
)

// owners are the parts of a fleet that have a store in the place.
var owners = []string{"service", "gateway", "consumer"}

// prepare makes the tables of a round, and names them. The returned function removes them from the engine.
func (p *place) prepare(ctx context.Context, dir string) (remove func(), err error) {
	p.Name = "redo_crash_" + randomName()
	remove = func() {}
	switch p.Store {
	case "sqlstore":
		for _, who := range owners {
			if err := prepareSQLite(ctx, filepath.Join(dir, who+".db")); err != nil {
				return nil, err
			}
		}
	case "postgres":
		db, err := pgschema.Open(ctx, p.URL, "choose another -store")
		if err != nil {
			return nil, err
		}
		p.Name, err = db.Create(ctx, "redo_crash_", pgTables)
		return db.Close, err
	case "mysql":
		return p.prepareMySQL(ctx)
	}
	return remove, nil
}

func prepareSQLite(ctx context.Context, path string) error {
	st, err := sqlitestore.Open(ctx, path, sqlitestore.WithMigrate())
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return errors.Join(err, st.Close())
	}
	_, err = db.ExecContext(ctx, fmt.Sprintf(booksTable, ""))
	return errors.Join(err, db.Close(), st.Close())
}

func pgTables(schema string) (statements string, err error) {
	statements = fmt.Sprintf(booksTable, schema+".")
	for _, who := range owners {
		table, err := pgstore.Migration(pgstore.WithSchema(schema), pgstore.WithTable(who))
		if err != nil {
			return "", err
		}
		statements += table
	}
	events, err := pgoutbox.Migration(pgoutbox.WithSchema(schema))
	return statements + events, err
}

func (p *place) prepareMySQL(ctx context.Context) (remove func(), err error) {
	admin, err := sql.Open("mysql", p.URL)
	if err != nil {
		return nil, err
	}
	remove = func() {
		_, _ = admin.ExecContext(context.WithoutCancel(ctx), "DROP DATABASE "+p.Name)
		_ = admin.Close()
	}
	if _, err := admin.ExecContext(ctx, "CREATE DATABASE "+p.Name); err != nil {
		return remove, err
	}
	db, err := sql.Open("mysql", p.URL+p.Name+mysqlOptions)
	if err != nil {
		return remove, err
	}
	defer func() { _ = db.Close() }()
	for _, who := range owners {
		st, err := mysqlstore.New(db, mysqlstore.WithTable(who))
		if err != nil {
			return remove, err
		}
		if err := st.Migrate(ctx); err != nil {
			return remove, err
		}
	}
	_, err = db.ExecContext(ctx, fmt.Sprintf(booksTable, ""))
	return remove, err
}
