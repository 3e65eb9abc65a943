package pgoutbox

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/redo-go/redo/outbox"
)

// extendSQL extends leases. Its parameters are the events ($1), the fences ($2), and the duration ($3). It returns the
// leases that are live.
//
// A claim of a line has one lease for all of its events, because they are delivered one after the other. Any other
// claim is divided if not all of its events are extended.
const extendSQL = `
WITH present AS MATERIALIZED (SELECT clock_timestamp() + $3::bigint * interval '1 microsecond' AS until),
held AS MATERIALIZED (
	SELECT c.* FROM {.claim} AS c WHERE c.fence = ANY ($2::bigint[]) ORDER BY c.fence, c.part FOR UPDATE
),
open AS MATERIALIZED (SELECT h.fence, h.part, unnest(h.open) AS seq FROM held AS h),
owned AS MATERIALIZED (
	SELECT o.* FROM open AS o
	JOIN (SELECT DISTINCT * FROM unnest($1::bigint[], $2::bigint[]) AS e (seq, fence)) AS e USING (seq, fence)
),
parts AS MATERIALIZED (
	SELECT h.*, o.seqs, h.ordering_key IS NOT NULL OR cardinality(o.seqs) = cardinality(h.open) AS whole
	FROM held AS h JOIN (SELECT fence, part, array_agg(seq ORDER BY seq) AS seqs FROM owned GROUP BY fence, part) AS o
		USING (fence, part)
),
extended AS (
	UPDATE {.claim} AS c SET lease_end = present.until FROM parts AS p, present
	WHERE c.fence = p.fence AND c.part = p.part AND p.whole
),
reduced AS (
	UPDATE {.claim} AS c SET open = ARRAY(SELECT unnest(p.open) EXCEPT SELECT unnest(p.seqs) ORDER BY 1) FROM parts AS p
	WHERE c.fence = p.fence AND c.part = p.part AND NOT p.whole
),
divided AS (
	INSERT INTO {.claim} (fence, part, open, lease_end, claimed_at)
	SELECT p.fence, nextval({'fence}::regclass), p.seqs, present.until, p.claimed_at
	FROM parts AS p, present WHERE NOT p.whole
)
SELECT seq, fence FROM owned`

// Extend implements [outbox.Queue].
func (q *Queue) Extend(ctx context.Context, d time.Duration, leases ...outbox.Lease) ([]outbox.Lease, error) {
	if err := outbox.CheckLease(d); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil || len(leases) == 0 {
		return nil, err
	}
	seqs, fences := make([]int64, len(leases)), make([]int64, len(leases))
	for i, l := range leases {
		seqs[i], fences[i] = int64(l.Seq), int64(l.Fence)
	}
	var live map[outbox.Lease]bool
	err := q.run(ctx, true, func(on *pgx.Conn) (err error) {
		live, err = leasesOf(ctx, on, q.sql.extend, seqs, fences, micros(d))
		return err
	})
	if err != nil {
		return nil, err
	}
	var lost []outbox.Lease
	for _, l := range leases {
		if !live[l] {
			lost = append(lost, l)
		}
	}
	return lost, nil
}

// leasesOf sends a statement whose rows are a seq and a fence.
func leasesOf(ctx context.Context, on *pgx.Conn, text string, args ...any) (map[outbox.Lease]bool, error) {
	found := map[outbox.Lease]bool{}
	err := planned(ctx, on, text, args, func(rows pgx.Rows) error {
		var seq, fence int64
		_, err := pgx.ForEachRow(rows, []any{&seq, &fence}, func() error {
			found[outbox.Lease{Seq: uint64(seq), Fence: uint64(fence)}] = true
			return nil
		})
		return err
	})
	return found, err
}

// sweepSQL makes the events late whose leases have expired, at most those of a hundred claims. With $1 it looks at all
// claims, and otherwise at those that the cursor has not passed. An event keeps the fence, so that its owner may settle
// it until another claim takes it.
const sweepSQL = `
WITH present AS MATERIALIZED (SELECT clock_timestamp() AS at),
expired AS MATERIALIZED (
	SELECT c.* FROM {.claim} AS c
	WHERE c.lease_end <= (SELECT at FROM present) AND c.lease_end > CASE WHEN $1::boolean THEN '-infinity'
		ELSE (SELECT swept FROM {.cursor} ORDER BY n DESC LIMIT 1) END
	ORDER BY c.lease_end LIMIT 100 FOR UPDATE SKIP LOCKED
),
gone AS (DELETE FROM {.claim} AS c USING expired AS e WHERE c.fence = e.fence AND c.part = e.part),
opened AS MATERIALIZED (SELECT e.fence, e.claimed_at, unnest(e.open) AS seq FROM expired AS e),
back AS (
	INSERT INTO {.late} AS l (seq, destination, ordering_key, due_at, attempts, first_at, fence)
	SELECT o.seq, t.destination, t.ordering_key, present.at, 1, o.claimed_at, o.fence
	FROM present CROSS JOIN opened AS o
	JOIN (SELECT * FROM {table} WHERE seq = ANY (ARRAY(SELECT seq FROM opened))) AS t ON t.seq = o.seq
	ON CONFLICT (seq) DO UPDATE SET state = 1, due_at = excluded.due_at, fence = excluded.fence
),
freed AS (
	UPDATE {.line} AS l SET fence = 0, queued = true, held = false, due_at = present.at FROM expired AS e, present
	WHERE l.destination = e.destination AND l.ordering_key = e.ordering_key AND l.fence = e.fence
)
SELECT count(*) FROM expired`

// sweep makes the events late whose leases have expired.
func (q *Queue) sweep(ctx context.Context, all bool) error {
	for n := int64(100); n == 100; {
		if err := q.run(ctx, true, func(on *pgx.Conn) error {
			return on.QueryRow(ctx, q.sql.sweep, all).Scan(&n)
		}); err != nil {
			return err
		}
	}
	return nil
}

// sweepIsDue reports whether it is time to look at all leases. The others are found through the cursor.
func (q *Queue) sweepIsDue(now time.Time) bool {
	last := q.swept.Load()
	return now.UnixNano()-last >= int64(sweepEvery) && q.swept.CompareAndSwap(last, now.UnixNano())
}
