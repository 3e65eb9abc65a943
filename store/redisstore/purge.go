package redisstore

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redo-go/redo/store"
)

// Purge implements store.Store. The engine deletes expired records on its own; what is left to do, and is counted, are
// expired records' places in the index of what is pending. One new claim in eight tidies up its own shard's, so that a
// store in use needs no Purge. Its cost depends on the number of shards and on what it deletes.
//
// An error may come after some were deleted; the count says how many.
func (s *Store) Purge(ctx context.Context, limit int) (int, error) {
	if err := s.ready(ctx); err != nil {
		return 0, err
	}
	if limit < 1 {
		return 0, fmt.Errorf("%w: the limit of a purge is %d, it must be at least 1", store.ErrInvalid, limit)
	}
	shards, err := s.expiredShards(ctx)
	purged := 0
	for _, e := range shards {
		if purged == limit {
			break
		}
		got := s.run(ctx, purgeScript, e.keys, []string{strconv.Itoa(limit - purged)})
		n, err := got.AsInt64()
		if err != nil {
			return purged, writeFailed(ctx, err)
		}
		purged += int(n)
	}
	return purged, err
}

// expiredShards returns the shards whose index holds something that has expired.
func (s *Store) expiredShards(ctx context.Context) ([]execution, error) {
	all := make([]execution, shardCount)
	for i := range all {
		all[i].keys = []string{s.layout.shards[i].pending}
	}
	var some []execution
	for i, got := range s.runAll(ctx, expiredScript, all) {
		n, err := got.AsInt64()
		if err != nil {
			return nil, readFailed(ctx, err)
		}
		if n > 0 {
			some = append(some, all[i])
		}
	}
	return some, nil
}
