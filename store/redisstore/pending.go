package redisstore

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/redis/rueidis"
	"github.com/redo-go/redo/store"
)

// Pages in which Pending reads, which bound what one round trip holds.
const (
	indexPage  = 16 // shards
	recordPage = 64 // records
)

// Pending implements store.Lister. It reads the indexes of what is pending, which change together with the records,
// and then each record as the loop comes to it: one that was reserved after the loop began is not in the list, one that was
// settled or removed meanwhile is left out. It holds the IDs of what is pending in memory, and looks at no other key.
func (s *Store) Pending(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		ids, err := s.pendingIDs(ctx, scope)
		for page := range slices.Chunk(ids, recordPage) {
			var records []store.Record
			if records, err = s.pendingRecords(ctx, page); err != nil {
				break
			}
			for _, r := range records {
				if err = ctx.Err(); err != nil {
					break
				}
				if !yield(r, nil) {
					return
				}
			}
			if err != nil {
				break
			}
		}
		if err != nil {
			yield(store.Record{}, err)
		}
	}
}

// pendingIDs returns what the indexes hold of a scope, oldest first.
func (s *Store) pendingIDs(ctx context.Context, scope string) ([]store.ID, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	var members []string
	for first := 0; first < shardCount; first += indexPage {
		cmds := make([]rueidis.Completed, indexPage)
		for i := range cmds {
			// Built as a command that goes to the primary, and once.
			cmds[i] = s.client.B().Arbitrary("ZRANGE").Keys(s.layout.shards[first+i].pending).Args("0", "-1").Build()
		}
		for _, got := range s.client.DoMulti(ctx, cmds...) {
			page, err := got.AsStrSlice()
			if err != nil {
				return nil, readFailed(ctx, err)
			}
			members = append(members, page...)
		}
	}
	slices.Sort(members) // by creation, with which they begin
	var ids []store.ID
	for _, m := range members {
		if len(m) < createdDigits {
			return nil, malformed("the index of what is pending holds %.64q", m)
		}
		id, err := parseID(m[createdDigits:])
		if err != nil {
			return nil, malformed("the index of what is pending holds %.64q: %w", m, err)
		}
		if scope == "" || id.Scope == scope {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// createdDigits is the length of the creation time in a member of the index.
const createdDigits = 20

// pendingRecords reads the records that are pending still.
func (s *Store) pendingRecords(ctx context.Context, ids []store.ID) ([]store.Record, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	finds := make([]execution, len(ids))
	for i, id := range ids {
		keys, _ := s.layout.record(id)
		finds[i].keys = keys[:1]
	}
	var records []store.Record
	for i, got := range s.runAll(ctx, findScript, finds) {
		r, err := found(ctx, got, ids[i])
		switch {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return nil, err
		case r.State == store.StatePending:
			records = append(records, r)
		}
	}
	return records, nil
}
