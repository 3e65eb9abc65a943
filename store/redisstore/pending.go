package redisstore

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
	"github.com/redo-go/redo/store"
)

// Pages in which Pending reads. They bound the size of one round trip.
const (
	indexPage    = 16   // shards
	creationPage = 1000 // records
	recordPage   = 64   // records
)

// fenceMember is the member of an index whose score is the count of the last fence.
const fenceMember = "#"

// Pending implements store.Lister. It reads the indexes of pending records, then the creations of those records, and
// then the records in pages as the loop comes to them. It leaves out a record that was reserved after the loop began,
// and one that was settled or removed meanwhile. It holds the IDs of the pending records in memory. A damaged member
// of an index names no record: its error comes last.
func (s *Store) Pending(ctx context.Context, scope string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		var nameless error
		places, err := inLayout(ctx, s, func() (places []place, err error) {
			places, nameless, err = s.places(ctx, scope)
			return places, err
		})
		if err == nil {
			err = s.sortByCreation(ctx, places)
		}
		for page := range slices.Chunk(places, recordPage) {
			if err != nil {
				break
			}
			var entries []entry
			entries, err = s.pendingRecords(ctx, page)
			for _, e := range entries {
				if err = ctx.Err(); err != nil {
					break
				}
				if !yield(e.Record, e.err) {
					return
				}
			}
		}
		if err = cmp.Or(err, nameless); err != nil {
			yield(store.Record{}, err)
		}
	}
}

// An entry is a record of the list, or the ID of one that can't be read and its error.
type entry struct {
	store.Record
	err error
}

// A place is a record's place in an index.
type place struct {
	keys    [2]string
	id      store.ID
	created int64 // in microseconds, 0 if it can't be read
}

// places returns the places of a scope's records. nameless is the error of the first member that is not the key of a
// record.
func (s *Store) places(ctx context.Context, scope string) (places []place, nameless, err error) {
	if err := s.ready(ctx); err != nil {
		return nil, nil, err
	}
	l := s.layout.Load()
	for page := range slices.Chunk(l.shards[:], indexPage) {
		indexes := make([]rueidis.Completed, len(page))
		for i, sh := range page {
			indexes[i] = s.primary("ZRANGE", sh.pending, "0", "-1")
		}
		var got []rueidis.RedisResult
		if got, err = s.readAll(ctx, indexes); err != nil {
			return nil, nil, err
		}
		for i, sh := range page {
			members, err := got[i].AsStrSlice()
			if err != nil {
				return nil, nil, readFailed(ctx, err)
			}
			if !slices.Contains(members, l.mark) {
				return nil, nil, errLayout
			}
			for _, m := range members {
				id, err := recordID(m)
				if !strings.HasPrefix(m, sh.records) {
					err = errKey
				}
				switch {
				case m == fenceMember || m == l.mark:
				case err != nil && nameless == nil:
					nameless = malformed("the index of pending records holds %.64q: %w", m, err)
				case err == nil && (scope == "" || id.Scope == scope):
					places = append(places, place{keys: [2]string{m, sh.pending}, id: id})
				}
			}
		}
	}
	return places, nameless, nil
}

// readAll sends commands that read. It returns the first error that is not a reply of the server.
func (s *Store) readAll(ctx context.Context, cmds []rueidis.Completed) (got []rueidis.RedisResult, err error) {
	for i := range cmds {
		cmds[i] = cmds[i].Pin() // persist may send them again
	}
	err = s.persist(ctx, func() error {
		got = s.client.DoMulti(ctx, cmds...)
		for _, r := range got {
			if err := r.NonRedisError(); err != nil {
				return readFailed(ctx, err)
			}
		}
		return nil
	})
	return got, err
}

// sortByCreation sorts the oldest record first.
func (s *Store) sortByCreation(ctx context.Context, places []place) error {
	for page := range slices.Chunk(places, creationPage) {
		cmds := make([]rueidis.Completed, len(page))
		for i, p := range page {
			cmds[i] = s.primary("GETRANGE", p.keys[0], strconv.Itoa(createdAt), strconv.Itoa(expiresAt-1))
		}
		got, err := s.readAll(ctx, cmds)
		if err != nil {
			return err
		}
		for i, r := range got {
			digits, _ := r.ToString() // a key that holds no string is damaged: the record's own read reports it
			page[i].created, _ = strconv.ParseInt(digits, 10, 64)
		}
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.created, b.created), cmp.Compare(a.keys[0], b.keys[0]))
	})
	return nil
}

// pendingRecords reads the records that are still pending. Its error is not about one record.
func (s *Store) pendingRecords(ctx context.Context, places []place) ([]entry, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	finds := make([][]string, len(places))
	for i := range places {
		finds[i] = places[i].keys[:]
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
		case r.State == store.StatePending && r.CreatedAt.UnixMicro() == places[i].created:
			entries = append(entries, entry{Record: r})
		}
	}
	return entries, nil
}

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
