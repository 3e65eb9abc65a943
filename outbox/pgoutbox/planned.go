package pgoutbox

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// planSQL holds for the statement behind it, in the same transaction. Postgres then makes one plan for all values, and
// uses indexes. The tables are small most of the time. A plan that was made then would read whole tables later, up to
// the next ANALYZE.
const planSQL = `SELECT set_config('plan_cache_mode', 'force_generic_plan', true),
	set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true)`

// planned sends a statement behind planSQL, in one round trip. read reads its rows.
func planned(ctx context.Context, on *pgx.Conn, text string, args []any, read func(pgx.Rows) error) error {
	b := &pgx.Batch{}
	b.Queue(planSQL)
	b.Queue(text, args...).Query(read)
	return on.SendBatch(ctx, b).Close()
}
