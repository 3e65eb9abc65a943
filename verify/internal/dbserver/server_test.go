package dbserver

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// A server that was killed has its committed rows when it is started again, and one that was stopped continues.
func TestServerIsKilledStoppedAndStartedAgain(t *testing.T) {
	s, err := Postgres()
	if errors.Is(err, ErrMissing) && os.Getenv("REDO_TEST_REQUIRE") != "1" {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	exec := func(text string) (err error) {
		conn, err := pgx.Connect(t.Context(), s.URL)
		if err == nil {
			_, err = conn.Exec(t.Context(), text)
			_ = conn.Close(t.Context())
		}
		return err
	}
	require.NoError(t, exec("CREATE TABLE kept ()"))
	require.NoError(t, s.Kill())
	require.Error(t, exec("SELECT 1"), "it is killed")
	require.NoError(t, s.Start())
	require.NoError(t, exec("SELECT FROM kept"))

	require.NoError(t, s.Stop())
	responded := make(chan error, 1)
	go func() { responded <- exec("SELECT FROM kept") }()
	select {
	case err := <-responded:
		require.Fail(t, "a stopped server responded", "%v", err)
	case <-time.After(100 * time.Millisecond):
	}
	require.NoError(t, s.Continue())
	require.NoError(t, <-responded)
}
