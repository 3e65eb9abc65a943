package pgtable_test

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/pgstore/pgtable"
	"github.com/redo-go/redo/store/pgstore/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

var table = pgtable.Table{Package: "pgstore", Schema: "public", Name: "records"}

// The driver calls the error safe to retry. It returns the same error if the response to a statement was lost.
func TestClosedConnectionProvesNothingOfAWrite(t *testing.T) {
	conn := pgtest.Connect(t, pgtest.URL(t))
	require.NoError(t, conn.Close(t.Context()))
	_, err := conn.Exec(t.Context(), "SELECT 1")
	require.ErrorIs(t, err, pgconn.ErrConnClosed)
	require.True(t, pgconn.SafeToRetry(err))
	require.ErrorIs(t, table.Failure(t.Context(), err, true), store.ErrUnknown)
	read := table.Failure(t.Context(), err, false)
	require.ErrorIs(t, read, store.ErrUnavailable)
	require.NotErrorIs(t, read, store.ErrUnknown)
}

func TestFailureSaysWhatIsKnown(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	server := func(severity, code string) error { return &pgconn.PgError{SeverityUnlocalized: severity, Code: code} }
	type kinds []error
	unknown, unavailable := store.ErrUnknown, store.ErrUnavailable
	live := t.Context()
	for name, c := range map[string]struct {
		ctx     context.Context
		err     error
		writes  bool
		is, not kinds
	}{
		"a write without a response":     {live, io.EOF, true, kinds{unknown}, nil},
		"a read without a response":      {live, io.EOF, false, kinds{unavailable}, kinds{unknown}},
		"a write that its context ended": {canceled, io.EOF, true, kinds{unknown, context.Canceled}, nil},
		"a read that its context ended": {
			canceled, io.EOF, false, kinds{context.Canceled}, kinds{unknown, unavailable},
		},
		"a write whose session ended": {live, server("FATAL", "57P01"), true, kinds{unknown}, nil},
		"a write whose session a pooler ended": {
			live, &pgconn.PgError{Severity: "FATAL", Code: "58000"}, true, kinds{unknown}, nil,
		},
		"a write that a pooler refused": {
			live, &pgconn.PgError{Severity: "ERROR", Code: "53300"}, true, kinds{unavailable}, kinds{unknown},
		},
		"a refused write": {live, server("ERROR", "53200"), true, kinds{unavailable}, kinds{unknown}},
		"a refused value": {live, server("ERROR", "23514"), true, nil, kinds{unavailable, unknown}},
		"a missing table": {
			live, server("ERROR", "42P01"), true, kinds{pgtable.ErrNoTable, unavailable}, nil,
		},
		"a missing column": {
			live, server("ERROR", "42703"), true, kinds{pgtable.ErrVersion, unavailable}, nil,
		},
		"a standby": {
			live, server("ERROR", "25006"), true, kinds{pgtable.ErrStandby, unavailable}, nil,
		},
		"an error of the contract": {live, store.ErrLost, true, kinds{store.ErrLost}, kinds{unavailable}},
	} {
		t.Run(name, func(t *testing.T) {
			err := table.Failure(c.ctx, c.err, c.writes)
			for _, want := range c.is {
				require.ErrorIs(t, err, want)
			}
			for _, not := range c.not {
				require.NotErrorIs(t, err, not)
			}
		})
	}
}

func TestDoRepeatsWhatChangedNothing(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		calls int
	}{
		"a lost race":            {pgtable.ErrRace, 3},
		"a deadlock":             {&pgconn.PgError{Severity: "ERROR", Code: "40P01"}, 3},
		"a failure to serialize": {&pgconn.PgError{Severity: "ERROR", Code: "40001"}, 3},
		"a lost response":        {io.EOF, 1},
		"a refusal":              {&pgconn.PgError{Severity: "ERROR", Code: "53200"}, 1},
		"a full pool":            {pgtable.Acquired(nil, errors.New("full")), 1},
	} {
		calls := 0
		err := table.Do(t.Context(), true, func() error {
			if calls++; calls == 3 {
				return nil
			}
			return c.err
		})
		require.Equal(t, c.calls, calls, name)
		require.Equal(t, c.calls == 3, err == nil, name)
	}
	calls := 0
	require.ErrorIs(t, table.Do(t.Context(), true, func() error {
		calls++
		return pgx.ErrTxCommitRollback
	}), store.ErrUnavailable)
	require.Equal(t, 1, calls)
}
