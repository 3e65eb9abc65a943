package pgstore_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore"
	"github.com/redo-go/redo/store/pgstore/pgtest"
)

// A crash of the server would lose acknowledged records, as with an unlogged table. At every other value they are on
// the server's disk.
func TestCheckRefusesAsynchronousCommits(t *testing.T) {
	p := newPlace(t)
	p.open(t) // it makes the table
	for _, level := range []string{"on", "local", "remote_write", "remote_apply", "off"} {
		p.change = append(p.change[:0:0], func(cfg *pgxpool.Config) {
			cfg.ConnConfig.RuntimeParams["synchronous_commit"] = level
		})
		st, err := pgstore.New(pgtest.NewPool(t, p.url, 1, p.change...), pgstore.WithSchema(p.schema))
		require.NoError(t, err)
		for _, err := range []error{st.Check(t.Context()), st.Migrate(t.Context())} {
			if level != "off" {
				require.NoError(t, err, level)
				continue
			}
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.ErrorContains(t, err, "synchronous_commit is off")
		}
	}
}
