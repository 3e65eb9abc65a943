package orms

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	gormmysql "gorm.io/driver/mysql"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/redo-go/redo/store/sqltx"
)

type gormOrder struct {
	ID   int64
	Item string
}

func (gormOrder) TableName() string { return "orders" }

// inTx returns a copy of db that writes in the store's transaction.
func inTx(ctx context.Context, db *gorm.DB, tx *sqltx.Tx) *gorm.DB {
	db = db.WithContext(ctx) // a copy
	db.Statement.ConnPool = tx
	return db
}

func newGorm(t *testing.T, e engine) library {
	t.Helper()
	db := openGorm(t, e)
	return library{
		insert: func(ctx context.Context, tx *sqltx.Tx, item string) error {
			db := inTx(ctx, db, tx)
			if err := db.Create(&gormOrder{Item: item}).Error; err != nil {
				return err
			}
			var got gormOrder
			return db.Where("item = ?", item).First(&got).Error
		},
		inPart: func(ctx context.Context, tx *sqltx.Tx, f func(tx *sqltx.Tx) error) error {
			return inTx(ctx, db, tx).Transaction(func(part *gorm.DB) error {
				return f(part.Statement.ConnPool.(*sqltx.Tx))
			})
		},
	}
}

func openGorm(t *testing.T, e engine) *gorm.DB {
	t.Helper()
	var dialect gorm.Dialector
	switch e.name {
	case "postgres":
		dialect = gormpostgres.New(gormpostgres.Config{Conn: e.db})
	case "mysql":
		dialect = gormmysql.New(gormmysql.Config{Conn: e.db})
	default:
		t.Skip("GORM's drivers bring a second SQLite, which must not open the store's file")
	}
	db, err := gorm.Open(dialect, &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	return db
}

// The wiring without a copy only seems to work: it changes the handle that all requests share.
func TestASessionOfGormSharesItsStatement(t *testing.T) {
	db := openGorm(t, postgres(t))
	own, tx := db.Statement.ConnPool, sqltx.New(nil)
	require.NotSame(t, db.Statement, inTx(t.Context(), db, tx).Statement)
	require.Equal(t, own, db.Statement.ConnPool)
	db.Session(&gorm.Session{NewDB: true}).Statement.ConnPool = tx
	require.Equal(t, gorm.ConnPool(tx), db.Statement.ConnPool)
}

// GORM's Begin, and its Commit of the store's transaction, are errors and not a second transaction.
func TestGormCanNotEndTheTransaction(t *testing.T) {
	e := postgres(t)
	db := openGorm(t, e)
	do := newServer(t, e.store, "gorm")
	for name, end := range map[string]func(*gorm.DB) *gorm.DB{
		"begin":  func(db *gorm.DB) *gorm.DB { return db.Begin() },
		"commit": (*gorm.DB).Commit,
	} {
		w := do(name, func(ctx context.Context, tx *sqltx.Tx) (int, error) {
			db := inTx(ctx, db, tx)
			require.NoError(t, db.Create(&gormOrder{Item: name}).Error)
			return 201, end(db).Error
		})
		require.Equal(t, 500, w.Code, w.Body)
	}
	w := do("rollback", func(ctx context.Context, tx *sqltx.Tx) (int, error) {
		db := inTx(ctx, db, tx)
		defer db.Rollback()
		return 201, db.Create(&gormOrder{Item: "rollback"}).Error
	})
	require.Equal(t, 503, w.Code, w.Body)
	require.Empty(t, e.items(t))
}
