package redisstore

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"time"

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
// settled or removed meanwhile is left out. It holds the IDs of what is pending in memory, and looks at no other key. A
// member of an index that is damaged names no record: its error comes last.
func (s *Store) Pending(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		places, nameless, err := s.pendingPlaces(ctx, scope)
		for page := range slices.Chunk(places, recordPage) {
			var entries []entry
			if entries, err = s.pendingRecords(ctx, page); err != nil {
				break
			}
			for _, e := range entries {
				if err = ctx.Err(); err != nil {
					break
				}
				if !yield(e.Record, e.err) {
					return
				}
			}
			if err != nil {
				break
			}
		}
		if err == nil {
			err = nameless
		}
		if err != nil {
			yield(store.Record{}, err)
		}
	}
}

// An entry is what the list yields: a record, or the ID of one that can't be read and its error.
type entry struct {
	store.Record
	err error
}

// A place is what an index holds of a record. The creation tells it from that of an earlier record of the same ID, which
// stays in the index after the engine has let the record expire, until somebody tidies up.
type place struct {
	created time.Time
	id      store.ID
}

// pendingPlaces returns what the indexes hold of a scope, oldest first. nameless is the first error of a member whose ID
// can't be read.
func (s *Store) pendingPlaces(ctx context.Context, scope string) (places []place, nameless, err error) {
	if err := s.ready(ctx); err != nil {
		return nil, nil, err
	}
	var members []string
	for first := 0; first < shardCount; first += indexPage {
		var page []string
		err := s.persist(ctx, func() (err error) {
			page, err = s.indexes(ctx, s.layout.shards[first:first+indexPage])
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		members = append(members, page...)
	}
	slices.Sort(members) // by creation, with which they begin
	for _, m := range members {
		if m == fenceMember {
			continue
		}
		p, err := parsePlace(m)
		switch {
		case err != nil && nameless == nil:
			nameless = malformed("the index of what is pending holds %.64q: %w", m, err)
		case err == nil && (scope == "" || p.id.Scope == scope):
			places = append(places, p)
		}
	}
	return places, nameless, nil
}

// indexes returns the members of some shards' indexes.
func (s *Store) indexes(ctx context.Context, shards []shard) (members []string, err error) {
	cmds := make([]rueidis.Completed, len(shards))
	for i, sh := range shards {
		// Built as a command that goes to the primary, and once.
		cmds[i] = s.client.B().Arbitrary("ZRANGE").Keys(sh.pending).Args("0", "-1").Build()
	}
	for _, got := range s.client.DoMulti(ctx, cmds...) {
		page, err := got.AsStrSlice()
		if err != nil {
			return nil, readFailed(ctx, err)
		}
		members = append(members, page...)
	}
	return members, nil
}

// parsePlace reads a member, which is a creation and an ID.
func parsePlace(member string) (place, error) {
	if len(member) < createdDigits {
		return place{}, errIDText
	}
	created, err := strconv.ParseUint(member[:createdDigits], 10, 63)
	if err != nil {
		return place{}, err
	}
	id, err := parseID(member[createdDigits:])
	return place{created: time.UnixMicro(int64(created)), id: id}, err
}

// An index holds, beside what is pending in its shard, the count of the last fence.
const fenceMember = "#"

// pendingRecords reads the records that are pending still. Its error is not about one record.
func (s *Store) pendingRecords(ctx context.Context, places []place) ([]entry, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	finds := make([]execution, len(places))
	for i, p := range places {
		keys, _ := s.layout.record(p.id)
		finds[i].keys = keys[:1]
	}
	var entries []entry
	for i, got := range s.runAll(ctx, findScript, finds) {
		r, err := found(ctx, got, places[i].id)
		switch {
		case errors.Is(err, store.ErrNotFound):
		case errors.Is(err, ErrFormat):
			entries = append(entries, entry{store.Record{ID: places[i].id}, err})
		case err != nil:
			return nil, err
		case r.State == store.StatePending && r.CreatedAt.Equal(places[i].created):
			entries = append(entries, entry{Record: r})
		}
	}
	return entries, nil
}
