package orms

import (
	"context"
	"testing"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/mysqldialect"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"github.com/uptrace/bun/schema"

	"github.com/redo-go/redo/store/sqltx"
)

type bunOrder struct {
	bun.BaseModel `bun:"table:orders"`
	ID            int64 `bun:",pk,autoincrement"`
	Item          string
}

func newBun(_ *testing.T, e engine) library {
	dialect := map[string]func() schema.Dialect{
		"postgres": func() schema.Dialect { return pgdialect.New() },
		"mysql":    func() schema.Dialect { return mysqldialect.New() },
		"sqlite":   func() schema.Dialect { return sqlitedialect.New() },
	}[e.name]
	db := bun.NewDB(e.db, dialect())
	return library{insert: func(ctx context.Context, tx *sqltx.Tx, item string) error {
		if _, err := db.NewInsert().Conn(tx).Model(&bunOrder{Item: item}).Exec(ctx); err != nil {
			return err
		}
		return db.NewSelect().Conn(tx).Model(&bunOrder{}).Where("item = ?", item).Scan(ctx)
	}}
}
