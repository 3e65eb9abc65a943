package pgoutbox

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
)

const (
	disableSQL = `INSERT INTO {.disabled} (destination, failure) VALUES ($1::text, $2::text::jsonb)
		ON CONFLICT (destination) DO NOTHING`
	enableSQL = `WITH gone AS (DELETE FROM {.disabled} WHERE destination = $1::text RETURNING destination)
		SELECT count(*) FROM gone WHERE {notify}`
	disabledSQL = `SELECT destination, since, failure FROM {.disabled} ORDER BY destination`
)

// Disable implements [outbox.Queue].
func (q *Queue) Disable(ctx context.Context, destination string, why outbox.Failure) error {
	if err := (outbox.Outcome{Result: outbox.Dead, Failure: why}).Validate(); err != nil {
		return err
	}
	if len(destination) > outbox.MaxDestination || destination != storable(destination) {
		return fmt.Errorf("pgoutbox: %w: the destination is no event's", store.ErrInvalid)
	}
	return storing(func(text func(string) string) error {
		failure, err := encodeFailure(why, text)
		if err != nil {
			return err
		}
		return q.run(ctx, true, func(on *pgx.Conn) error {
			_, err := on.Exec(ctx, q.sql.disable, destination, failure)
			return err
		})
	})
}

// Enable implements [outbox.Queue].
func (q *Queue) Enable(ctx context.Context, destination string) error {
	return q.run(ctx, true, func(on *pgx.Conn) error {
		_, err := on.Exec(ctx, q.sql.enable, destination)
		return err
	})
}

// Disabled implements [outbox.Queue].
func (q *Queue) Disabled(ctx context.Context) (found []outbox.DisabledDestination, err error) {
	err = q.run(ctx, false, func(on *pgx.Conn) error {
		rows, _ := on.Query(ctx, q.sql.disabled) // CollectRows returns its error
		found, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (d outbox.DisabledDestination, err error) {
			var why storedFailure
			err = row.Scan(&d.Destination, &d.Since, &why)
			d.Why = why.failure()
			return d, err
		})
		return err
	})
	return found, err
}
