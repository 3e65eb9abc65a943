package orms

import (
	"context"
	"database/sql/driver"
	"testing"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"entgo.io/ent/dialect/sql/sqlgraph"
	"entgo.io/ent/schema/field"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store/sqltx"
)

// An entDriver runs a client of ent in a transaction that is open. ent begins one to write an entity with its edges.
// Here that is the open one.
type entDriver struct{ dialect.Driver }

func newEntDriver(name string, tx entsql.ExecQuerier) entDriver {
	return entDriver{entsql.NewDriver(name, entsql.Conn{ExecQuerier: tx})}
}

// Tx implements dialect.Driver.
func (d entDriver) Tx(context.Context) (dialect.Tx, error) { return dialect.NopTx(d), nil }

// newEnt uses the packages that the generated code of ent calls.
func newEnt(_ *testing.T, e engine) library {
	name := map[string]string{"postgres": dialect.Postgres, "mysql": dialect.MySQL, "sqlite": dialect.SQLite}[e.name]
	return library{insert: func(ctx context.Context, tx *sqltx.Tx, item string) error {
		return insertByEnt(ctx, newEntDriver(name, tx), item)
	}}
}

// insertByEnt writes an order with its edge to a parcel.
func insertByEnt(ctx context.Context, drv dialect.Driver, item string) error {
	id := &sqlgraph.FieldSpec{Column: "id", Type: field.TypeInt64}
	parcel := &sqlgraph.CreateSpec{Table: "parcels", ID: id}
	if err := sqlgraph.CreateNode(ctx, drv, parcel); err != nil {
		return err
	}
	order := &sqlgraph.CreateSpec{
		Table: "orders", ID: &sqlgraph.FieldSpec{Column: "id", Type: field.TypeInt64},
		Fields: []*sqlgraph.FieldSpec{{Column: "item", Type: field.TypeString, Value: item}},
		Edges: []*sqlgraph.EdgeSpec{{
			Rel: sqlgraph.O2M, Table: "parcels", Columns: []string{"order_id"},
			Target: &sqlgraph.EdgeTarget{Nodes: []driver.Value{parcel.ID.Value}, IDSpec: id},
		}},
	}
	return sqlgraph.CreateNode(ctx, drv, order)
}

// ent's own driver over the transaction only seems to work.
func TestEntNeedsADriverThatBeginsNoTransaction(t *testing.T) {
	e := sqlite(t)
	do := newServer(t, e.store, "ent")
	w := do("bread", func(ctx context.Context, tx *sqltx.Tx) (int, error) {
		drv := entsql.NewDriver(dialect.SQLite, entsql.Conn{ExecQuerier: tx})
		require.Panics(t, func() { _ = insertByEnt(ctx, drv, "bread") })
		return 500, nil
	})
	require.Equal(t, 500, w.Code, w.Body)
	require.Empty(t, e.items(t))
}
