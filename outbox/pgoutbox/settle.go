package pgoutbox

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store/pgstore/pgtable"
	"github.com/redo-go/redo/taxonomy"
)

// settleSQL settles attempts. Its parameters are arrays: the events ($1), the fences ($2), the results ($3), the waits
// ($4), and the failures ($5). It returns the leases that were not lost, and a row of zeros if events have become due.
//
// An event that its first claim sent leaves nothing behind. A claim's row is deleted when no event of it is open.
// With it the line becomes free: its row is deleted, or is due if it has late events. A concurrent claim that
// finds an event of the line marks the line as queued. Each locks the line's row and reads the other's writes.
const settleSQL = `
WITH present AS MATERIALIZED (SELECT clock_timestamp() AS at),
ended AS MATERIALIZED (
	SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::smallint[], $4::bigint[], $5::text[])
		AS e (seq, fence, result, wait, failure)
),
held AS MATERIALIZED (
	SELECT c.* FROM {.claim} AS c WHERE c.fence = ANY ($2::bigint[]) ORDER BY c.fence, c.part FOR UPDATE
),
opened AS MATERIALIZED (
	SELECT o.fence, o.part, o.claimed_at, o.seq, e.result, e.wait, e.failure
	FROM (SELECT h.fence, h.part, h.claimed_at, unnest(h.open) AS seq FROM held AS h) AS o
	LEFT JOIN ended AS e ON e.seq = o.seq AND e.fence = o.fence
),
stray AS MATERIALIZED ( -- their leases have expired, and no other claim has taken them
	SELECT e.* FROM (
		SELECT e.* FROM ended AS e LEFT JOIN opened AS o ON o.seq = e.seq AND o.fence = e.fence
		WHERE o.seq IS NULL) AS e
	CROSS JOIN LATERAL (SELECT l.seq FROM {.late} AS l WHERE l.seq = e.seq AND l.fence = e.fence AND l.state = 1
		FOR UPDATE) AS l
),
done AS MATERIALIZED (
	SELECT seq, fence, result, wait, failure, claimed_at FROM opened WHERE result IS NOT NULL
	UNION ALL SELECT seq, fence, result, wait, failure, NULL FROM stray
),
rest AS MATERIALIZED (
	SELECT h.fence, h.part, h.destination, h.ordering_key, o.open, o.failed
	FROM held AS h JOIN (
		SELECT fence, part, array_agg(seq ORDER BY seq) FILTER (WHERE result IS NULL) AS open,
			bool_or(result <> 1) AS failed
		FROM opened GROUP BY fence, part) AS o ON o.fence = h.fence AND o.part = h.part
	WHERE o.failed IS NOT NULL
),
gone AS (
	DELETE FROM {.claim} AS c USING rest AS r
	WHERE c.fence = ANY (ARRAY(SELECT fence FROM rest WHERE open IS NULL))
		AND c.fence = r.fence AND c.part = r.part AND r.open IS NULL
),
kept AS (
	UPDATE {.claim} AS c SET open = r.open FROM rest AS r
	WHERE c.fence = ANY (ARRAY(SELECT fence FROM rest WHERE open IS NOT NULL))
		AND c.fence = r.fence AND c.part = r.part AND r.open IS NOT NULL
),
touched AS MATERIALIZED (
	SELECT l.destination, l.ordering_key, l.queued OR r.failed AS queued, r.open IS NULL AS free
	FROM rest AS r CROSS JOIN LATERAL (
		SELECT l.* FROM {.line} AS l
		WHERE l.destination = r.destination AND l.ordering_key = r.ordering_key AND l.fence = r.fence FOR UPDATE) AS l
	WHERE r.ordering_key IS NOT NULL AND (r.open IS NULL OR r.failed)
),
emptied AS (
	DELETE FROM {.line} AS l USING touched AS t
	WHERE l.destination = t.destination AND l.ordering_key = t.ordering_key AND t.free AND NOT t.queued
),
marked AS (
	UPDATE {.line} AS l SET queued = t.queued, fence = CASE WHEN t.free THEN 0 ELSE l.fence END, due_at = present.at
	FROM touched AS t, present
	WHERE l.destination = t.destination AND l.ordering_key = t.ordering_key AND NOT (t.free AND NOT t.queued)
),
sent AS (
	DELETE FROM {.late} AS l WHERE l.seq = ANY (ARRAY(SELECT seq FROM done WHERE result = 1))
),
unsent AS MATERIALIZED (
	SELECT d.*, CASE WHEN d.failure IS NOT NULL THEN jsonb_build_array(
		jsonb_build_object('at', (extract(epoch FROM present.at) * 1000000)::bigint) || d.failure::jsonb)
		ELSE '[]' END AS past
	FROM done AS d, present WHERE d.result <> 1
),
back AS (
	INSERT INTO {.late} AS l (seq, destination, ordering_key, state, due_at, attempts, first_at, died_at, history)
	SELECT u.seq, t.destination, t.ordering_key, CASE WHEN u.result = 3 THEN 3 ELSE 1 END,
		present.at + u.wait * interval '1 microsecond', CASE WHEN u.result = 4 THEN 0 ELSE 1 END,
		CASE WHEN u.result <> 4 THEN u.claimed_at END, CASE WHEN u.result = 3 THEN present.at END, u.past
	FROM present CROSS JOIN unsent AS u
	JOIN (SELECT * FROM {table} WHERE seq = ANY (ARRAY(SELECT seq FROM unsent))) AS t ON t.seq = u.seq
	ON CONFLICT (seq) DO UPDATE SET state = excluded.state, due_at = excluded.due_at, fence = NULL,
		attempts = l.attempts + excluded.attempts - 1,
		first_at = CASE WHEN l.attempts + excluded.attempts > 1 THEN l.first_at END,
		died_at = excluded.died_at,
		history = CASE WHEN jsonb_array_length(l.history) + jsonb_array_length(excluded.history) > {history}
			THEN l.history - 0 ELSE l.history END || excluded.history
)
SELECT seq, fence FROM done
UNION ALL SELECT 0, 0 FROM present WHERE EXISTS (SELECT FROM unsent WHERE wait = 0 AND result <> 3)
	OR EXISTS (SELECT FROM touched WHERE free AND queued)`

// Settle implements [outbox.Queue], in one statement.
func (q *Queue) Settle(ctx context.Context, ended ...outbox.Settlement) (lost []outbox.Lease, err error) {
	for _, s := range ended {
		if err := s.Outcome.Validate(); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil || len(ended) == 0 {
		return nil, err
	}
	// A lease may be given twice: the first settlement counts.
	first := map[outbox.Lease]bool{}
	var batch []outbox.Settlement
	for _, s := range ended {
		if first[s.Lease] {
			lost = append(lost, s.Lease)
			continue
		}
		first[s.Lease] = true
		batch = append(batch, s)
	}
	// A claim may have made an expired lease's event late while the statement waited for its lock. The second statement
	// sees it.
	for range 2 {
		settled, err := q.settle(ctx, batch)
		if err != nil {
			return nil, err
		}
		batch = slices.DeleteFunc(batch, func(s outbox.Settlement) bool { return settled[s.Lease] })
		if len(batch) == 0 {
			break
		}
	}
	for _, s := range batch {
		lost = append(lost, s.Lease)
	}
	return lost, nil
}

func (q *Queue) settle(ctx context.Context, batch []outbox.Settlement) (settled map[outbox.Lease]bool, err error) {
	err = storing(func(text func(string) string) error {
		settled, err = q.settleWith(ctx, batch, text)
		return err
	})
	if settled[outbox.Lease{}] {
		q.notices.outside()
	}
	return settled, err
}

func (q *Queue) settleWith(
	ctx context.Context, batch []outbox.Settlement, text func(string) string,
) (settled map[outbox.Lease]bool, err error) {
	n := len(batch)
	seqs, fences, results, waits := make([]int64, n), make([]int64, n), make([]int16, n), make([]int64, n)
	failures := make([]*string, n)
	for i, s := range batch {
		seqs[i], fences[i], results[i] = int64(s.Lease.Seq), int64(s.Lease.Fence), int16(s.Outcome.Result)
		switch s.Outcome.Result {
		case outbox.Waiting:
			waits[i] = micros(s.Outcome.Wait)
			fallthrough
		case outbox.Dead:
			failure, err := encodeFailure(s.Outcome.Failure, text)
			if err != nil {
				return nil, err
			}
			failures[i] = &failure
		}
	}
	err = q.run(ctx, true, func(on *pgx.Conn) (err error) {
		settled, err = leasesOf(ctx, on, q.sql.settle, seqs, fences, results, waits, failures)
		return err
	})
	return settled, err
}

// A storedFailure is a failure as JSON. At and Elapsed are microseconds and nanoseconds.
type storedFailure struct {
	At       int64  `json:"at,omitempty"`
	Code     string `json:"code,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Status   int    `json:"status,omitempty"`
	Response string `json:"response,omitempty"`
	Elapsed  int64  `json:"elapsed,omitempty"`
}

// encodeFailure returns the failure as JSON, with its texts changed by text.
func encodeFailure(f outbox.Failure, text func(string) string) (string, error) {
	encoded, err := json.Marshal(storedFailure{
		Code: text(string(f.Code)), Reason: text(f.Reason), Status: f.Status, Response: text(f.Response),
		Elapsed: int64(f.Elapsed),
	})
	if err != nil {
		return "", fmt.Errorf("pgoutbox: %w", err)
	}
	return string(encoded), nil
}

// storing calls write, which stores failures. A failure has bytes of a receiver's response. A database in another
// encoding than UTF-8 may lack their characters. Then storing calls write again, for ASCII only. The event would be
// delivered for ever if its settlement failed.
func storing(write func(text func(string) string) error) error {
	err := write(storable)
	if slices.Contains([]string{untranslatable, notInRepertoire, notSupported}, pgtable.Code(err)) {
		return write(ascii)
	}
	return err
}

// SQLSTATE codes of texts that the database's encoding does not have.
const (
	untranslatable  = "22P05"
	notInRepertoire = "22021"
	notSupported    = "0A000" // of an escape in JSON, if the encoding is SQL_ASCII
)

// ascii replaces all characters but those of ASCII.
func ascii(text string) string {
	return strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII {
			return '?'
		}
		return r
	}, storable(text))
}

// storable replaces the bytes that a text of Postgres can't hold.
func storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

func (f storedFailure) failure() outbox.Failure {
	return outbox.Failure{
		Code: taxonomy.Code(f.Code), Reason: f.Reason, Status: f.Status, Response: f.Response,
		Elapsed: time.Duration(f.Elapsed),
	}
}
