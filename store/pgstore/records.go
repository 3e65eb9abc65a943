package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/redo-go/redo/store"
)

// MaxResult is the longest result that Complete accepts, in bytes; a longer one is store.ErrInvalid. Postgres ends at
// 1 GiB for a row and for a message, in which a result may stand twice as long.
const MaxResult = 256 << 20

// records is a store over any engine.
type records struct {
	config
	engine engine
	owns   bool // the pool is closed with the store
	sql    statements
	held   registry

	life  context.Context // ends with Close
	end   context.CancelFunc
	polls polls
}

func newRecords(on engine, cfg config) *records {
	r := &records{config: cfg, engine: on, sql: newStatements(cfg.schema, cfg.table)}
	r.life, r.end = context.WithCancel(context.Background())
	return r
}

// Close ends every Wait and, if the store came from Open, waits for the calls that are running and closes the
// connections. It neither waits for open transactions nor ends them: they can be committed, discarded and rolled back as
// before, and of a store from Open the last one to end closes the connections. Afterwards all methods return an error that
// wraps store.ErrUnavailable; closing again does nothing. It always returns nil.
//
// A pool that was handed to New or NewSQL is left as it is. Its owner closes it when the transactions are over: the Close of
// a pgxpool.Pool waits for them, without limit, and that of an sql.DB does not, and lets them end.
func (s *records) Close() error {
	s.end()
	s.polls.wait()
	if !s.owns {
		return nil
	}
	if s.held.close() {
		s.engine.shut()
	} else {
		s.engine.idle()
	}
	return nil
}

// name is the table's, for messages.
func (s *records) name() string { return pgx.Identifier{s.schema, s.table}.Sanitize() }

// Reserve implements [store.Store], in one statement unless somebody else is at the same ID. An ID that an open
// transaction holds is InFlight or Mismatch as it is to Begin, at once.
func (s *records) Reserve(ctx context.Context, c store.Claim) (store.Grant, error) {
	if err := c.Validate(); err != nil {
		return store.Grant{}, err
	}
	if err := s.ready(ctx); err != nil {
		return store.Grant{}, err
	}
	if g, held := s.held.grant(c); held {
		return g, nil
	}
	var g store.Grant
	err := s.run(ctx, true, func(on session) error {
		var err error
		g, err = s.sql.reserveOn(ctx, on, c)
		return err
	})
	if err != nil {
		return store.Grant{}, err
	}
	return g, nil
}

// Extend implements [store.Store]. A negative d and store.Forever are refused with store.ErrInvalid.
func (s *records) Extend(ctx context.Context, l store.Lease, d time.Duration, meta []byte) error {
	// The rules for a claim's lease and meta are the rules here.
	if err := (store.Claim{ID: l.ID, Lease: d, Retention: store.Forever, Meta: meta}).Validate(); err != nil {
		return err
	}
	return s.run(ctx, true, func(on session) error { return s.sql.extendOn(ctx, on, l, d, meta) })
}

// Complete implements [store.Store]. A result longer than [MaxResult] is refused with store.ErrInvalid.
func (s *records) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	if err := validate(o); err != nil {
		return err
	}
	text := s.sql.complete
	if o.Lazy {
		text = s.sql.completeLazy
	}
	return s.run(ctx, true, func(on session) error { return completeOn(ctx, on, text, l, o) })
}

func validate(o store.Outcome) error {
	if err := o.Validate(); err != nil {
		return err
	}
	if len(o.Result) > MaxResult {
		return fmt.Errorf("pgstore: %w: the result has %d bytes, at most %d are allowed", store.ErrInvalid, len(o.Result), MaxResult)
	}
	return nil
}

// Release implements [store.Store].
func (s *records) Release(ctx context.Context, l store.Lease) error {
	return s.run(ctx, true, func(on session) error { return changeOn(ctx, on, s.sql.release, l) })
}

// Forget implements [store.Forgetter].
func (s *records) Forget(ctx context.Context, l store.Lease) error {
	return s.run(ctx, true, func(on session) error { return changeOn(ctx, on, s.sql.forget, l) })
}

// Drop implements [store.Dropper]. A row is damaged if another program's write broke one of these rules. The
// fingerprint has 33 bytes. The state is 1, 2 or 3. The fence is positive. The instants are finite or NULL.
func (s *records) Drop(ctx context.Context, id store.ID) error {
	if err := id.Validate(); err != nil {
		return err
	}
	var dropped bool
	var sound pgtype.Bool
	err := s.run(ctx, true, func(on session) error {
		err := on.queryRow(ctx, s.sql.drop, []byte(id.Scope), []byte(id.Key)).Scan(&dropped, &sound)
		if err == nil && !dropped && sound.Valid && !sound.Bool {
			return errLostRace
		}
		return err
	})
	switch {
	case err != nil || dropped:
		return err
	case !sound.Valid:
		return store.ErrNotFound
	}
	return fmt.Errorf("pgstore: %w: the record of %v is not damaged", store.ErrInvalid, id)
}

// Find implements [store.Store]. An ID outside its limits is refused with store.ErrInvalid.
func (s *records) Find(ctx context.Context, id store.ID) (store.Record, error) {
	if err := id.Validate(); err != nil {
		return store.Record{}, err
	}
	var rec store.Record
	err := s.run(ctx, false, func(on session) error {
		var err error
		rec, err = s.sql.findOn(ctx, on, id)
		return err
	})
	if err != nil {
		return store.Record{}, err
	}
	return rec, nil
}
