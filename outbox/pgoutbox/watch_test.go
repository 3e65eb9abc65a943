package pgoutbox_test

import (
	"context"
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
