package redisstore

import (
	"cmp"
	"context"
	"strconv"

	"github.com/redo-go/redo/store"
)

// Purge implements store.Store. The engine deletes expired records. Purge removes and counts the entries that they
// leave in the index of pending records. Reserve does so too, so that a store in use needs no Purge. Its cost
// depends on the number of shards and on the number of entries that it removes.
//
// An error may come after some entries were removed; the count is right.
func (s *Store) Purge(ctx context.Context, limit int) (int, error) {
	if err := cmp.Or(s.ready(ctx), store.ValidatePurge(limit)); err != nil {
		return 0, err
	}
	shards := make([][]string, shardCount)
	for i, sh := range s.layout.Load().shards {
		shards[i] = []string{sh.pending, sh.pending} // the scripts' second key is the index
	}
	purged := 0
	for i, got := range s.runAll(ctx, purgeScript, shards, "0") {
		expired, err := got.AsInt64()
		if err != nil {
			return purged, readFailed(ctx, err)
		}
		if expired == 0 || purged == limit {
			continue
		}
		n, err := s.run(ctx, purgeScript, shards[i], []string{strconv.Itoa(limit - purged)}).AsInt64()
		if err != nil {
			return purged, writeFailed(ctx, err)
		}
		purged += int(n)
	}
	return purged, nil
}
