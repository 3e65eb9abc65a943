package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/sqltx"
)

// firstStep is the step of a Store's first fence. It passes over the fences that a power failure made the file forget,
// because draw does not sync.
const firstStep = 1 << 32

// Reserve implements [store.Store]. An ID that an open transaction holds is InFlight without a wait.
func (s *Store) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	if err := c.Validate(); err != nil {
		return store.Grant{}, err
	}
	return s.claim(ctx, c, func() (g store.Grant, err error) {
		defer func() { <-s.turn }()
		err = s.commit(func(tx *sql.Tx) error {
			g, err = s.take(ctx, tx, c, 0)
			if err == nil && !g.Verdict.Owned() {
				return errNothing
			}
			return err
		})
		switch {
		case errors.Is(err, errNothing):
			return g, nil
		case err == nil:
			s.step = 1
		}
		return g, err
	})
}

// errNothing rolls back a transaction that has nothing to commit.
var errNothing = errors.New("sqlitestore: nothing to commit")

// claim returns the verdict that keeps the ID from being claimed. Otherwise it calls own in this goroutine's turn,
// which own ends. It calls own again if another writer has the file's lock.
func (s *Store) claim(
	ctx context.Context, c store.Claim, own func() (store.Grant, error),
) (g store.Grant, err error) {
	inTheWay := false // a writer was
	err = s.repeat(ctx, func() error {
		for {
			now, err := s.read(ctx, s.reads, c.ID)
			if err != nil {
				return err
			}
			now.Held = inTheWay && now.began // this is the ID that the writer holds
			if g = now.Judge(c); !g.Verdict.Owned() {
				return nil
			}
			come := s.await(ctx, inTheWay)
			inTheWay = true
			if come {
				g, err = own()
				return err
			}
		}
	})
	if err != nil {
		g = store.Grant{}
	}
	return g, err
}

// turnLimit bounds a claim's wait for its turn, after which it reads the record again.
const turnLimit = 50 * time.Millisecond

// await reports whether this goroutine's turn has come. If wait is true, it waits for the turn.
func (s *Store) await(ctx context.Context, wait bool) bool {
	select {
	case s.turn <- struct{}{}:
		return true
	default:
	}
	if !wait {
		return false
	}
	select {
	case s.turn <- struct{}{}:
		return true
	case <-time.After(turnLimit):
	case <-ctx.Done():
	}
	return false
}

// A snapshot is what one statement has read.
type snapshot struct {
	sqltx.Snapshot
	last  int64 // fence, of any ID
	began bool  // the last transaction that began held this ID, and may be open
}

const columns = "fingerprint, state, result, meta, owner, fence, lease_until, created_at, expires_at"

const readSQL = `SELECT f.last, f.scope IS ?1 AND f.id_key IS ?2, ` + columns + `
FROM redo_fence AS f LEFT JOIN redo_records AS r ON r.scope = ?1 AND r.id_key = ?2`

func (s *Store) read(ctx context.Context, on sqltx.Queryer, id store.ID) (snapshot, error) {
	now := snapshot{Snapshot: sqltx.Snapshot{At: s.clock()}}
	var row sqltx.Row
	err := on.QueryRowContext(ctx, readSQL, []byte(id.Scope), []byte(id.Key)).
		Scan(append([]any{&now.last, &now.began}, row.Dest()...)...)
	if err == nil {
		now.Record, err = row.Record(id, now.At)
	}
	return now, err
}

const (
	insertSQL = `REPLACE INTO redo_records (scope, id_key, ` + columns + `) VALUES (?, ?, ?, 1, NULL, ?, ?, ?, ?, ?, ?)`
	ownSQL    = `UPDATE redo_records SET owner = ?, fence = ?, lease_until = ?, expires_at = ?
		WHERE scope = ? AND id_key = ?`
	fenceOnly = `UPDATE redo_fence SET last = ?`
	drawSQL   = `UPDATE redo_fence SET last = last + ?, scope = ?, id_key = ? RETURNING last`
	// withdrawSQL clears the ID of a transaction that is over. Every commit does so, for owners that have died.
	withdrawSQL = `UPDATE redo_fence SET scope = NULL, id_key = NULL WHERE id_key IS NOT NULL`
	// freeSQL deletes expired records. An index lists them.
	freeSQL = `DELETE FROM redo_records WHERE rowid IN
		(SELECT rowid FROM redo_records WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)`
)

// freed is the number of expired records that a new one removes.
const freed = 2

// take judges the claim in tx and writes the record that it owns. fence is the result of draw, or zero: take then
// draws itself.
func (s *Store) take(ctx context.Context, tx *sql.Tx, c store.Claim, fence int64) (store.Grant, error) {
	now, err := s.read(ctx, tx, c.ID)
	if err != nil {
		return store.Grant{}, err
	}
	g := now.Judge(c)
	switch {
	case !g.Verdict.Owned():
		return g, nil
	case fence == 0:
		fence = now.last + s.step
		if _, err := tx.ExecContext(ctx, fenceOnly, fence); err != nil {
			return store.Grant{}, err
		}
	case fence != now.last:
		return store.Grant{}, errOvertaken
	}
	rec := sqltx.Claimed(now.Record, g.Verdict, c, uint64(fence), now.At)
	id, owner := []any{[]byte(c.ID.Scope), []byte(c.ID.Key)}, []byte(c.Owner)
	lease, expires := sqltx.Instant(rec.LeaseUntil), sqltx.Instant(rec.ExpiresAt)
	if g.Verdict == store.TakenOver {
		_, err = tx.ExecContext(ctx, ownSQL, append([]any{owner, fence, lease, expires}, id...)...)
	} else {
		created := sqltx.Instant(rec.CreatedAt)
		args := append(id, c.Fingerprint[:], rec.Meta, owner, fence, lease, created, expires)
		_, err = tx.ExecContext(ctx, insertSQL, args...)
		if err == nil {
			_, err = tx.ExecContext(ctx, freeSQL, now.At.UnixMicro(), freed)
		}
	}
	return store.Grant{Verdict: g.Verdict, Lease: rec.Lease(), Record: rec}, err
}

// draw draws a fence for a transaction that is about to begin, and announces the ID that it will hold. That is a
// separate commit: a rollback does not give the fence back, and a claim that finds the file locked reads the ID.
// The commit is not synced, because the transaction's own will be. The first one is, as firstStep relies on it.
func (s *Store) draw(ctx context.Context, id store.ID) (fence int64, err error) {
	on := s.draws
	if s.step == firstStep {
		on = s.writes
	}
	err = on.QueryRowContext(ctx, drawSQL, s.step, []byte(id.Scope), []byte(id.Key)).Scan(&fence)
	if err == nil {
		s.step = 1
	}
	return fence, err
}
