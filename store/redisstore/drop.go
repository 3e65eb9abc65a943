package redisstore

import (
	"cmp"
	"context"
	"fmt"

	"github.com/redo-go/redo/store"
)

// Drop implements store.Dropper. It is one script. A key that holds no string, or a string that is no record, is
// damaged. A record of another format is not damaged, and stays. Drop does not wait for replicas.
func (s *Store) Drop(ctx context.Context, id store.ID) error {
	if err := cmp.Or(s.ready(ctx), id.Validate()); err != nil {
		return err
	}
	word, err := inLayout(ctx, s, func() (string, error) {
		l := s.layout.Load()
		keys := l.record(id)
		word, err := s.run(ctx, dropScript, keys[:], []string{l.mark}).ToString()
		if err != nil {
			err = at(id, writeFailed(ctx, err))
		}
		return word, err
	})
	switch {
	case err != nil:
		return err
	case word == "ok":
		return nil
	case word == "absent":
		return store.ErrNotFound
	case word == "sound":
		return fmt.Errorf("redisstore: %w: the record of %v is not damaged", store.ErrInvalid, id)
	}
	return malformed("the reply %q", word)
}
