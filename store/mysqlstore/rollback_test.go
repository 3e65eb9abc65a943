package mysqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

var errRefused = errors.New("refused")

// An unwilling connection refuses one statement, as a proxy in front of the server may. It is its own connector.
type unwilling struct {
	refuses string
	closed  bool
}

func (c *unwilling) Connect(context.Context) (driver.Conn, error) { return c, nil }
func (c *unwilling) Driver() driver.Driver                        { return nil }
func (c *unwilling) Prepare(string) (driver.Stmt, error)          { return nil, errors.ErrUnsupported }
func (c *unwilling) Begin() (driver.Tx, error)                    { return nil, errors.ErrUnsupported }

func (c *unwilling) Close() error {
	c.closed = true
	return nil
}

func (c *unwilling) ExecContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	if query == c.refuses {
		return nil, errRefused
	}
	return driver.ResultNoRows, nil
}

// The next user of the connection would be in the same transaction, and would find its locks.
func TestAConnectionThatCanNotRollBackIsClosed(t *testing.T) {
	for _, of := range []struct {
		refuses string
		f       error
		closes  bool
	}{{"ROLLBACK", nil, false}, {"ROLLBACK", errRefused, true}, {"", errRefused, false}} {
		c := &unwilling{refuses: of.refuses}
		db := sql.OpenDB(c)
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		require.ErrorIs(t, new(Store).inTx(t.Context(), conn, func() error { return of.f }), of.f)
		require.Equal(t, of.closes, c.closed)
		require.NoError(t, db.Close())
	}
}

// Statements would be committed one by one.
func TestWithoutATransactionNothingIsDoneInIt(t *testing.T) {
	db := sql.OpenDB(&unwilling{refuses: "START TRANSACTION"})
	defer db.Close()
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	err = new(Store).inTx(t.Context(), conn, func() error {
		t.Error("there is no transaction")
		return nil
	})
	require.ErrorIs(t, err, errRefused)
	require.ErrorAs(t, err, new(read), "nothing was written")
}

// The pool keeps bad connections over a restart of the server. Locks and other claims may be in the way for long.
func TestAnObstacleIsPassed(t *testing.T) {
	for obstacle, times := range map[error]int{
		driver.ErrBadConn: 3, sql.ErrConnDone: 100, sql.ErrNoRows: 100,
		&mysql.MySQLError{Number: deadlock}: 100, &mysql.MySQLError{Number: duplicateKey}: 100,
		&mysql.MySQLError{Number: lockWaitTimeout}: 100, &mysql.MySQLError{Number: recordChanged}: 100,
	} {
		synctest.Test(t, func(t *testing.T) {
			c := new(unwilling)
			st := &Store{db: sql.OpenDB(c)}
			defer st.db.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			left := times
			require.NoError(t, st.run(ctx, true, func(*sql.Conn) error {
				if left--; left >= 0 {
					return obstacle
				}
				return nil
			}), obstacle)
			require.False(t, c.closed, "the session is sound")
		})
	}
}
