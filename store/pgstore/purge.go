package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/redo-go/redo/store"
)

// purgeBatch is the number of records that a statement of Purge deletes at most. It is the limit in purgeSQL.
const purgeBatch = 1000

// Purge implements [store.Store], in statements of at most 1,000 records. It skips records that another session has
// locked: any number of purges may run at a time, and share the work.
func (s *records) Purge(ctx context.Context, limit int) (int, error) {
	if limit < 1 {
		return 0, fmt.Errorf("pgstore: %w: the limit is %d, it must be positive", store.ErrInvalid, limit)
	}
	purged := 0
	for purged < limit {
		batch := min(purgeBatch, limit-purged)
		n := 0
		err := s.run(ctx, true, func(on *pgx.Conn) error {
			tag, err := on.Exec(ctx, s.sql.purge, int64(batch))
			n = int(tag.RowsAffected())
			return err
		})
		if err != nil {
			return purged, err
		}
		if purged += n; n < batch {
			break
		}
	}
	return purged, nil
}
