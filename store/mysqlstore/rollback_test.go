package mysqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

var errRefused = errors.New("refused")

// An unwilling connection refuses each ROLLBACK, as a proxy in front of the server may. It is its own connector.
type unwilling struct{ closed bool }

func (c *unwilling) Connect(context.Context) (driver.Conn, error) { return c, nil }
func (c *unwilling) Driver() driver.Driver                        { return nil }
func (c *unwilling) Prepare(string) (driver.Stmt, error)          { return nil, errors.ErrUnsupported }
func (c *unwilling) Begin() (driver.Tx, error)                    { return nil, errors.ErrUnsupported }

func (c *unwilling) Close() error {
	c.closed = true
	return nil
}

func (c *unwilling) ExecContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	if query == "ROLLBACK" {
		return nil, errRefused
	}
	return driver.ResultNoRows, nil
}

// The next user of the connection would be in the same transaction, and would find its locks.
func TestAConnectionThatCanNotRollBackIsClosed(t *testing.T) {
	for f, closes := range map[error]bool{nil: false, errRefused: true} {
		c := new(unwilling)
		db := sql.OpenDB(c)
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		require.ErrorIs(t, new(Store).inTx(t.Context(), conn, func() error { return f }), f)
		require.Equal(t, closes, c.closed)
		require.NoError(t, db.Close())
	}
}

// The pool keeps bad connections over a restart of the server.
func TestABadConnectionIsReplacedByAnother(t *testing.T) {
	st := &Store{db: sql.OpenDB(new(unwilling))}
	defer st.db.Close()
	bad := 3
	require.NoError(t, st.run(t.Context(), true, func(*sql.Conn) error {
		if bad--; bad >= 0 {
			return driver.ErrBadConn
		}
		return nil
	}))
}
