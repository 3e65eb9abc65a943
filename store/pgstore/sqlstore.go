package pgstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/redo-go/redo/store"
)

// Interfaces that an SQLStore implements.
var (
	_ store.TxStore[*sql.Tx] = (*SQLStore)(nil)
	_ store.Waiter           = (*SQLStore)(nil)
	_ store.Checker          = (*SQLStore)(nil)
	_ store.Lister           = (*SQLStore)(nil)
	_ store.Forgetter        = (*SQLStore)(nil)
	_ store.Dropper          = (*SQLStore)(nil)
)

// An SQLStore is a [Store] for programs that use database/sql. Both may use one table at the same time, and hold the same
// IDs against each other. The driver must be pgx's, github.com/jackc/pgx/v5/stdlib. Create one with NewSQL. All
// methods may be called concurrently.
type SQLStore struct{ *records }

// NewSQL returns an SQLStore over db, which stays the caller's to close. It connects to nothing; call Check before the
// first request is served.
func NewSQL(db *sql.DB, opts ...Option) (*SQLStore, error) {
	if db == nil {
		return nil, fmt.Errorf("pgstore: %w: the database is nil", store.ErrInvalid)
	}
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	return &SQLStore{newRecords(&sqlPool{db, cfg.mode}, cfg)}, nil
}

// Begin implements [store.TxStore]. The connection is taken from the pool until the transaction is over. The *sql.Tx must not
// be ended by its user, who can't be kept from it: that is [store.ErrTxEnded], which asks the server what became of the
// transaction. From the user's commit until then nothing excludes others, who may take the record over. What he has rolled
// back is recorded by neither Commit nor Discard; Rollback then returns nil. A savepoint is a statement: database/sql has no
// other.
func (s *SQLStore) Begin(ctx context.Context, c store.Claim) (store.Tx[*sql.Tx], store.Grant, error) {
	return open(ctx, s.records, c, func(t transaction) *sql.Tx { return t.(*sqlTransaction).tx })
}
