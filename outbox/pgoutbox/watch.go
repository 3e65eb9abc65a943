package pgoutbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/redo-go/redo/store"
)

// closeTimeout bounds the farewell of the connection that listened.
const closeTimeout = 2 * time.Second

// Watch implements [outbox.Watcher]. It listens on a separate connection, which it makes as the pool makes its
// connections. With [WithoutNotify] it makes none, and wakes no relay.
func (q *Queue) Watch(ctx context.Context, wake func()) error {
	if q.silent {
		<-ctx.Done()
		return nil
	}
	if err := q.listen(ctx, wake); ctx.Err() == nil {
		return fmt.Errorf("pgoutbox: listening ended: %w: %w", store.ErrUnavailable, err)
	}
	return nil
}

func (q *Queue) listen(ctx context.Context, wake func()) error {
	cfg := q.pool.Config()
	if cfg.BeforeConnect != nil {
		if err := cfg.BeforeConnect(ctx, cfg.ConnConfig); err != nil {
			return err
		}
	}
	conn, err := pgx.ConnectConfig(ctx, cfg.ConnConfig)
	if err != nil {
		return err
	}
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		_ = conn.Close(last)
	}()
	_, err = conn.Exec(ctx, "LISTEN "+channel(q.table))
	for err == nil {
		wake() // the first time for earlier events
		_, err = conn.WaitForNotification(ctx)
	}
	return err
}
