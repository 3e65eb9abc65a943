package mysqlstore

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
)

// A server that ends a session may have committed its last statement. A node that has lost its Galera cluster while it
// commits gives error 1180, and the other nodes may have committed. Any other error of the server means no.
func TestWhatAnErrorSaysOfTheWrite(t *testing.T) {
	numbered := func(n uint16) error { return &mysql.MySQLError{Number: n, Message: "m"} }
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx    context.Context
		err    error
		writes bool
		want   error
	}{
		"the server shuts down":             {t.Context(), numbered(shutdown), true, store.ErrUnknown},
		"and the statement reads":           {t.Context(), read{numbered(shutdown)}, true, store.ErrUnavailable},
		"and the call reads":                {t.Context(), numbered(shutdown), false, store.ErrUnavailable},
		"the session is killed":             {t.Context(), numbered(sessionKilled), true, store.ErrUnknown},
		"and the context has ended":         {ended, numbered(sessionKilled), true, store.ErrUnknown},
		"and the context has ended, a read": {ended, numbered(sessionKilled), false, context.Canceled},
		"the commit fails":                  {t.Context(), numbered(commitFailed), true, store.ErrUnknown},
		"the connection is lost":            {t.Context(), io.ErrUnexpectedEOF, true, store.ErrUnknown},
		"the connection is lost, of a read": {t.Context(), read{io.ErrUnexpectedEOF}, true, store.ErrUnavailable},
		"the table is full":                 {t.Context(), numbered(1114), true, store.ErrUnavailable},
		"full, and the context has ended":   {ended, numbered(1114), true, store.ErrUnavailable},
		"there is no table":                 {t.Context(), numbered(1146), true, ErrNoTable},
		"the server is read-only":           {t.Context(), numbered(1290), true, ErrReadOnly},
		"too large for the server":          {t.Context(), numbered(packetTooLarge), true, store.ErrInvalid},
		"too large for the driver":          {t.Context(), mysql.ErrPktTooLarge, true, store.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			err := (&Store{}).failure(c.ctx, c.err, c.writes)
			require.ErrorIs(t, err, c.want)
			for _, other := range []error{store.ErrUnknown, store.ErrInvalid} {
				require.Equal(t, errors.Is(c.want, other), errors.Is(err, other), "%v", err)
			}
		})
	}
}
