package mysqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
)

// An imitation is a connection to a server that has the table. It is its own connector.
type imitation struct {
	unwilling
	packet     int64
	skipLocked bool
	failure    error // of the first statement of Check
}

func (c *imitation) Connect(context.Context) (driver.Conn, error) { return c, nil }

func (c *imitation) QueryContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	switch {
	case strings.Contains(query, "information_schema"):
		return &oneRow{0, c.packet, "STRICT_ALL_TABLES", "REPEATABLE-READ", "InnoDB", marker}, c.failure
	case !strings.HasSuffix(query, "SKIP LOCKED"):
		return &oneRow{1, c.packet, 0, 0, 0, nil, nil, nil, nil, nil, nil, nil, nil, nil}, nil // find's: no record
	case !c.skipLocked:
		return nil, &mysql.MySQLError{Number: syntaxError, Message: "near 'SKIP LOCKED'"}
	}
	return &oneRow{}, nil
}

type oneRow []any

func (r *oneRow) Columns() []string { return make([]string, len(*r)) }
func (r *oneRow) Close() error      { return nil }

func (r *oneRow) Next(dest []driver.Value) error {
	if len(*r) == 0 {
		return io.EOF
	}
	for i, v := range *r {
		if n, ok := v.(int); ok {
			v = int64(n)
		}
		dest[i] = v
	}
	*r = nil
	return nil
}

func TestCheckRefusesAServerThatIsTooOldOrTooSmall(t *testing.T) {
	for name, c := range map[string]struct {
		server imitation
		want   error // besides store.ErrUnavailable
		text   string
	}{
		"one that fits":            {imitation{packet: 4 << 20, skipLocked: true}, nil, ""},
		"without SKIP LOCKED":      {imitation{packet: 4 << 20}, ErrServer, "MariaDB 10.6"},
		"with a packet too small":  {imitation{packet: 4<<20 - 1, skipLocked: true}, ErrServer, "max_allowed_packet"},
		"with the default of 2012": {imitation{packet: 1 << 20, skipLocked: true}, ErrServer, "max_allowed_packet"},
		"that refuses the check":   {imitation{failure: errRefused}, errRefused, "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			st, err := New(sql.OpenDB(&c.server))
			require.NoError(t, err)
			defer st.db.Close()
			err = st.Check(t.Context())
			if c.want == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, c.want)
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.ErrorContains(t, err, c.text)
		})
	}
}
