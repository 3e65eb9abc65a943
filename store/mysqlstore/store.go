package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/sqltx"
)

// A snapshot is what one statement has read.
type snapshot struct {
	sqltx.Snapshot
	expired bool // there are records to delete, of any ID
	row     bool // the ID has a row, of a record that was removed perhaps
}

// find reads an ID's row by one of the statements find and lockRow.
func (s *Store) find(ctx context.Context, on sqltx.Queryer, text string, id store.ID) (now snapshot, err error) {
	var at, packet sql.NullInt64
	var row sqltx.Row
	err = on.QueryRowContext(ctx, text, s.lockOf(id), []byte(id.Scope), []byte(id.Key)).
		Scan(append([]any{&at, &packet, &now.Held, &now.expired, &now.row}, row.Dest()...)...)
	switch {
	case err != nil:
	case !at.Valid:
		err = fmt.Errorf("%w: a session needs autocommit=1, completion_type=NO_CHAIN, the server's timestamp, "+
			"an isolation above READ UNCOMMITTED, and no EMPTY_STRING_IS_NULL: %w", ErrServer, store.ErrUnavailable)
	default:
		s.packet.Store(packet.Int64)
		now.At = time.UnixMicro(at.Int64).UTC()
		now.Record, err = row.Record(id, now.At)
	}
	if err != nil {
		err = read{err}
	}
	return now, err
}

// Reserve implements [store.Store]. An ID that an open transaction holds is InFlight without a wait. If the
// transaction begins at the same time, Reserve waits for it.
func (s *Store) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	if err := c.Validate(); err != nil {
		return store.Grant{}, err
	}
	return s.claim(ctx, true, c, func(conn *sql.Conn, now snapshot) (g store.Grant, err error) {
		if now.row {
			err = s.inTx(ctx, conn, func() error {
				g, err = s.take(ctx, conn, c)
				return err
			})
		} else if g, err = s.insert(ctx, conn, c, now.At); err == nil {
			s.freeBy(ctx, conn, now)
		}
		return g, err
	})
}

// claim returns the verdict that keeps the ID from being claimed. Otherwise it calls own. writes is that of run.
func (s *Store) claim(
	ctx context.Context, writes bool, c store.Claim, own func(*sql.Conn, snapshot) (store.Grant, error),
) (g store.Grant, err error) {
	err = s.run(ctx, writes, func(conn *sql.Conn) error {
		now, err := s.find(ctx, conn, s.text.find, c.ID)
		if err != nil {
			return err
		}
		if g = now.Judge(c); g.Verdict.Owned() {
			g, err = own(conn, now)
		}
		return err
	})
	if err != nil {
		g = store.Grant{}
	}
	return g, err
}

// inTx runs f in a separate transaction. It commits unless f fails. A sql.Tx would commit without the context.
func (s *Store) inTx(ctx context.Context, conn *sql.Conn, f func() error) error {
	if _, err := conn.ExecContext(ctx, "START TRANSACTION"); err != nil {
		return read{err}
	}
	err := f()
	if err != nil {
		err = read{err}
	} else if _, err = conn.ExecContext(ctx, "COMMIT"); err == nil {
		return nil
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	if _, open := conn.ExecContext(last, "ROLLBACK"); open != nil {
		discard(conn)
	}
	return err
}

// insert makes the record of an ID that has no row. The row's number is in the fence.
func (s *Store) insert(ctx context.Context, on sqltx.Queryer, c store.Claim, now time.Time) (store.Grant, error) {
	rec := sqltx.Claimed(store.Record{}, store.Acquired, c, 0, now)
	chance := rand.Int64N(1 << 16)
	result, err := on.ExecContext(ctx, s.text.insert, []byte(c.ID.Scope), []byte(c.ID.Key), c.Fingerprint[:], rec.Meta,
		[]byte(c.Owner), sqltx.Instant(rec.LeaseUntil), sqltx.Instant(now), sqltx.Instant(rec.ExpiresAt), chance)
	if err != nil {
		return store.Grant{}, err
	}
	id, _ := result.LastInsertId() // the driver returns no error
	rec.Fence = uint64(id<<16 | chance)
	return store.Grant{Verdict: store.Acquired, Lease: rec.Lease(), Record: rec}, nil
}

// take skips a locked row. It locks the row, judges the claim again, and writes the record that it owns. The fence is
// drawn while the row is locked, so that fences grow in the order in which they are granted.
func (s *Store) take(ctx context.Context, tx sqltx.Queryer, c store.Claim) (store.Grant, error) {
	now, err := s.find(ctx, tx, s.text.lockRow+" SKIP LOCKED", c.ID)
	if err != nil {
		return store.Grant{}, err
	}
	g := now.Judge(c)
	if !g.Verdict.Owned() {
		return g, nil
	}
	dummy := fmt.Append(nil, rand.Uint64()) // the scope of a row that lives for one statement
	result, err := tx.ExecContext(ctx, s.text.draw, dummy)
	if err != nil {
		return store.Grant{}, err
	}
	number, _ := result.LastInsertId() // the driver returns no error
	if _, err = tx.ExecContext(ctx, s.text.drop, dummy, []byte{}); err != nil {
		return store.Grant{}, err
	}
	rec := sqltx.Claimed(now.Record, g.Verdict, c, uint64(number<<16|rand.Int64N(1<<16)), now.At)
	_, err = tx.ExecContext(ctx, s.text.own, []byte(c.Owner), rec.Fence, sqltx.Instant(rec.LeaseUntil),
		sqltx.Instant(rec.ExpiresAt), c.Fingerprint[:], rec.Meta, sqltx.Instant(rec.CreatedAt),
		[]byte(c.ID.Scope), []byte(c.ID.Key))
	return store.Grant{Verdict: g.Verdict, Lease: rec.Lease(), Record: rec}, err
}

// move calls f, which changes the record of a lease in one statement. A session that commits nothing changes no row.
func (s *Store) move(ctx context.Context, l store.Lease, f func(conn *sql.Conn) error) error {
	return s.run(ctx, true, func(conn *sql.Conn) error {
		err := f(conn)
		if errors.Is(err, store.ErrLost) {
			if _, unfit := s.find(ctx, conn, s.text.find, l.ID); errors.Is(unfit, ErrServer) {
				return unfit
			}
		}
		return err
	})
}

// Extend implements [store.Store]. A negative d and store.Forever are refused with store.ErrInvalid.
func (s *Store) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	if err := l.ValidateExtend(d, meta); err != nil {
		return err
	}
	n := sqltx.Micros(d)
	return s.move(ctx, l, func(conn *sql.Conn) error { return sqltx.Move(ctx, conn, s.text.extend, l, meta, n, n, n) })
}

// Complete implements [store.Store], also for a lazy outcome. A result over max_allowed_packet is store.ErrInvalid.
func (s *Store) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	if err := o.Validate(); err != nil {
		return err
	}
	return s.move(ctx, l, func(conn *sql.Conn) error { return s.settle(ctx, conn, commits, l, o) })
}

func (s *Store) settle(ctx context.Context, on sqltx.Queryer, and string, l store.Lease, o store.Outcome) error {
	if err := sqltx.FitsPacket(o.Result, s.packet.Load()); err != nil {
		return err // the server would break the connection
	}
	n := sqltx.Micros(o.Retention)
	return sqltx.Move(ctx, on, s.text.complete+and, l, sqltx.State(o), o.Result, n, n)
}

// Release implements [store.Store].
func (s *Store) Release(ctx context.Context, l store.Lease) error {
	return s.move(ctx, l, func(conn *sql.Conn) error { return sqltx.Move(ctx, conn, s.text.release, l) })
}

// Forget implements [store.Forgetter].
func (s *Store) Forget(ctx context.Context, l store.Lease) error {
	return s.move(ctx, l, func(conn *sql.Conn) error { return sqltx.Move(ctx, conn, s.text.forget, l) })
}

// Find implements [store.Store]. An ID outside its limits is refused with store.ErrInvalid. Find refuses a read-only
// server with ErrReadOnly, because a replica may not have the record yet.
func (s *Store) Find(ctx context.Context, id store.ID) (rec store.Record, err error) {
	if err := id.Validate(); err != nil {
		return store.Record{}, err
	}
	err = s.run(ctx, false, func(conn *sql.Conn) error {
		now, err := s.find(ctx, conn, s.text.find+" WHERE NOT "+readOnly, id)
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("%w: connect to the primary: %w", ErrReadOnly, store.ErrUnavailable)
		}
		if err == nil {
			rec, err = now.Find()
		}
		return err
	})
	return rec, err
}

// Drop implements [store.Dropper].
func (s *Store) Drop(ctx context.Context, id store.ID) error {
	if err := id.Validate(); err != nil {
		return err
	}
	return s.run(ctx, true, func(conn *sql.Conn) error {
		return s.inTx(ctx, conn, func() error {
			now, err := s.find(ctx, conn, s.text.lockRow, id)
			if err = now.RefuseDrop(id, err); err == nil {
				_, err = conn.ExecContext(ctx, s.text.drop, []byte(id.Scope), []byte(id.Key))
			}
			return err
		})
	})
}

// freeBy deletes sixteen expired records beside every eighth new one, because sixteen cost one commit as two do.
func (s *Store) freeBy(ctx context.Context, conn *sql.Conn, now snapshot) {
	if now.expired && !now.row && s.made.Add(1)%8 == 1 {
		_, _ = s.free(ctx, conn, 16)
	}
}

// free deletes at most n expired records. It passes over those that another one has locked.
func (s *Store) free(ctx context.Context, conn *sql.Conn, n int) (deleted int, err error) {
	err = s.inTx(ctx, conn, func() error {
		rows, err := conn.QueryContext(ctx, s.text.expired, n)
		if err != nil {
			return err
		}
		var ids []any
		for err == nil && rows.Next() {
			ids = append(ids, new(int64))
			err = rows.Scan(ids[len(ids)-1])
		}
		if err = errors.Join(err, rows.Err(), rows.Close()); err != nil || len(ids) == 0 {
			return err
		}
		deleted = len(ids)
		_, err = conn.ExecContext(ctx, s.text.free+strings.Repeat(", ?", deleted-1)+")", ids...)
		return err
	})
	return deleted, err
}

// Purge implements [store.Store], in transactions of at most 1,000 records. Several may run at a time.
func (s *Store) Purge(ctx context.Context, limit int) (int, error) {
	return sqltx.Purge(limit, func(batch int) (n int, err error) {
		err = s.run(ctx, true, func(conn *sql.Conn) error {
			n, err = s.free(ctx, conn, batch)
			return err
		})
		return n, err
	})
}

// Pending implements [store.Lister]. It reads 64 records at a time, and has no connection over the loop's body. It
// does not list records that are made while it runs, unless the clock was set back.
func (s *Store) Pending(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
	return sqltx.List(ctx, func(after sqltx.Position, until int64) (page []sqltx.Listed, err error) {
		err = s.run(ctx, false, func(conn *sql.Conn) error {
			page, err = sqltx.ReadPage(conn.QueryContext(ctx, s.text.pending, after.CreatedAt, after.CreatedAt,
				after.Row, until, []byte(scope), []byte(scope), sqltx.PageSize))
			return err
		})
		return page, err
	})
}
