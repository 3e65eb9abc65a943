package redisstore

import (
	"context"
	"fmt"

	"github.com/redo-go/redo/store"
)

// Drop implements store.Dropper. It is one script, which reads the whole index of the record's shard, since a damaged
// record does not show its place there. A key that holds no string, or a string that is no record, is damaged. A string
// that begins as a record of another format is not damaged, and stays. Drop waits for no replica.
func (s *Store) Drop(ctx context.Context, id store.ID) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if err := id.Validate(); err != nil {
		return err
	}
	keys, text := s.layout.record(id)
	word, err := s.run(ctx, dropScript, keys[:], []string{text}).ToString()
	switch {
	case err != nil:
		return at(id, writeFailed(ctx, err))
	case word == "ok":
		return nil
	case word == "absent":
		return store.ErrNotFound
	case word == "sound":
		return fmt.Errorf("redisstore: %w: the record of %v is not damaged", store.ErrInvalid, id)
	}
	return malformed("the answer %q", word)
}
