package ledger

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redo-go/redo/store"
)

// A Tx is the engine's transaction. It is not safe for concurrent use.
type Tx struct {
	s         *Store
	entries   []string
	err       error // why no further statement is taken
	ended     bool  // by its user
	committed bool  // by its user
}

// ErrStatement is what a failed statement returns, and every one after it, as in Postgres.
var ErrStatement = errors.New("ledger: a statement failed")

var errOver = errors.New("ledger: the transaction is over")

// Add adds an entry.
func (tx *Tx) Add(entry string) error {
	if tx.err == nil {
		tx.entries = append(tx.entries, entry)
	}
	return tx.err
}

// Fail is a statement that fails.
func (tx *Tx) Fail() error {
	tx.err = cmp.Or(tx.err, ErrStatement)
	return tx.err
}

// Commit commits what was added. It is there to be called by those who must not.
func (tx *Tx) Commit() error {
	if tx.err != nil {
		return tx.err
	}
	tx.s.mu.Lock()
	defer tx.s.mu.Unlock()
	for _, e := range tx.entries {
		tx.s.entries[e]++
	}
	tx.ended, tx.committed, tx.err = true, true, errOver
	return nil
}

// Rollback forgets what was added, and is like Commit otherwise.
func (tx *Tx) Rollback() error {
	if errors.Is(tx.err, errOver) {
		return tx.err
	}
	tx.ended, tx.err = true, errOver
	return nil
}

// Begin implements store.TxStore.
func (s *Store) Begin(ctx context.Context, c store.Claim) (store.Tx[*Tx], store.Grant, error) {
	if err := cmp.Or(ctx.Err(), c.Validate()); err != nil {
		return nil, store.Grant{}, err
	}
	c.Lease, c.Meta = 0, nil
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		now := time.Now()
		r, verdict := s.judge(c, now)
		if !verdict.Owned() {
			return nil, store.Grant{Verdict: verdict, Record: r}, nil
		}
		if s.single && len(s.held) > 0 {
			if err := s.wait(ctx); err != nil {
				return nil, store.Grant{}, err
			}
			continue
		}
		r = s.claimed(r, verdict, c, now)
		s.held[c.ID] = r
		return &open{s: s, rec: r, tx: &Tx{s: s}}, store.Grant{Verdict: verdict, Lease: r.Lease(), Record: detach(r, now)}, nil
	}
}

// open is a transaction with the record that it holds.
type open struct {
	s    *Store
	rec  store.Record
	tx   *Tx
	over bool
}

func (o *open) Tx() *Tx { return o.tx }

func (o *open) Commit(ctx context.Context, out store.Outcome) error {
	return o.end(func(now time.Time) error {
		if o.tx.ended {
			return o.endedByUser(cmp.Or(out.Validate(), ctx.Err()), out, now)
		}
		if err := cmp.Or(ctx.Err(), out.Validate(), o.tx.err); err != nil {
			return err
		}
		if expired(o.rec, now) {
			return store.ErrLost
		}
		for _, e := range o.tx.entries {
			o.s.entries[e]++
		}
		o.s.records[o.rec.ID] = settled(o.rec, out, now)
		return nil
	})
}

func (o *open) Discard(ctx context.Context, out store.Outcome) error {
	return o.end(func(now time.Time) error {
		if o.tx.committed {
			return o.endedByUser(cmp.Or(out.Validate(), ctx.Err()), store.UnknownOutcome(), now)
		}
		if err := cmp.Or(ctx.Err(), out.Validate()); err != nil {
			return err
		}
		if expired(o.rec, now) {
			return store.ErrLost
		}
		o.s.records[o.rec.ID] = settled(o.rec, out, now)
		return nil
	})
}

func (o *open) Rollback(context.Context) error {
	err := o.end(func(now time.Time) error {
		if o.tx.committed {
			return o.endedByUser(nil, store.UnknownOutcome(), now)
		}
		return nil
	})
	if errors.Is(err, errOver) {
		return nil
	}
	return err
}

// endedByUser settles the record of a transaction that its user has committed, and says what he has done. An outcome that
// is invalid can't be kept.
func (o *open) endedByUser(cause error, out store.Outcome, now time.Time) error {
	if !o.tx.committed {
		return errors.Join(cause, store.ErrTxEnded, store.ErrInvalid)
	}
	if out.Validate() != nil {
		out = store.UnknownOutcome()
	}
	r := settled(o.rec, out, now)
	if r.OutcomeUnknown() {
		o.s.fence++
		r.Fence = o.s.fence
	}
	o.s.records[o.rec.ID] = r
	return errors.Join(cause, store.ErrTxEnded, store.ErrUnknown)
}

// end does what the end of the transaction commits, and lets go of the record whatever comes of it.
func (o *open) end(commit func(now time.Time) error) error {
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	if o.over {
		return fmt.Errorf("%v: %w", o.rec.ID, errOver)
	}
	o.over = true
	err := commit(time.Now())
	o.tx.err = errOver
	delete(o.s.held, o.rec.ID)
	o.s.wake()
	return err
}

func settled(r store.Record, o store.Outcome, now time.Time) store.Record {
	r.State = store.StateComplete
	if o.Failed {
		r.State = store.StateFailed
	}
	r.Result, r.LeaseUntil = bytes.Clone(o.Result), time.Time{}
	if o.Retention != 0 {
		r.ExpiresAt = expiry(now, o.Retention)
	}
	return r
}
