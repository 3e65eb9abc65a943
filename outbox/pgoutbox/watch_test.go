package pgoutbox_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
)

// A deaf connection sends no LISTEN.
type deaf struct{}

func (deaf) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if !strings.HasPrefix(q.SQL, "LISTEN") {
		return ctx
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	return ended
}

func (deaf) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A Watch that hears nothing must say so: the relay then watches again.
func TestWatchEndsIfItCannotListen(t *testing.T) {
	p := newPlace(t)
	p.change = func(c *pgxpool.Config) { c.ConnConfig.Tracer = deaf{} }
	q, _ := p.open(t)
	err := q.Watch(t.Context(), func() { t.Error("woken") })
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorIs(t, err, context.Canceled, "the reason")
}

// So must one whose connection gets no password. BeforeConnect sets it for the connections of the pool.
func TestWatchConnectsAsThePoolDoes(t *testing.T) {
	p := newPlace(t)
	expired, errToken := false, errors.New("the token has expired")
	p.change = func(c *pgxpool.Config) {
		c.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
			if expired {
				return errToken
			}
			c.RuntimeParams["application_name"] = "of the pool"
			return nil
		}
	}
	q, pool := p.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	listening := 0
	require.NoError(t, q.Watch(ctx, func() {
		err := pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity "+
			"WHERE application_name = 'of the pool' AND query LIKE 'LISTEN%'").Scan(&listening)
		if err != nil {
			t.Error(err)
		}
		cancel()
	}))
	require.Equal(t, 1, listening)
	expired = true
	err := q.Watch(t.Context(), func() { panic("woken") })
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorIs(t, err, errToken, "the reason")
}

// So must one whose connection has ended.
func TestWatchEndsWithItsConnection(t *testing.T) {
	p := newPlace(t)
	p.change = func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = "watched" }
	q, _ := p.open(t)
	woken := make(chan bool, 1)
	ended := make(chan error)
	go func() { ended <- q.Watch(t.Context(), func() { woken <- true }) }()
	<-woken
	p.exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'watched' "+
		"AND query LIKE 'LISTEN%'")
	err := <-ended
	require.ErrorIs(t, err, store.ErrUnavailable)
	require.ErrorContains(t, err, "57P01", "the server's reason")
}
