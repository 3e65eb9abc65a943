package pebblestore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/redo-go/redo/internal/envelope"
	"github.com/redo-go/redo/store"
)

// fenceBlock is the number of fences that a group reserves beyond the last one given out. The next Open continues after
// all of them, so that a record that was removed leaves no fence to be given out again.
const fenceBlock = 1 << 20

// A group is a set of changes that one sync makes durable.
type group struct {
	rows  []*row
	purge int             // expired records that Purges want deleted
	again bool            // a Purge begins: try again what could not be read
	due   bool            // write it now
	lazy  bool            // a lazy change joined, and the timer runs
	state *envelope.State // that the group writes; nil: none
	now   int64           // when the group was sealed
	batch *pebble.Batch   // the last one, whose sync covers the group
	done  chan struct{}   // closed when the group is on disk, or can't be
	// Set before done is closed.
	err     error // for its durable members
	purged  int   // expired records that were deleted and that no Purge has counted
	skipped error // the first expired record that can't be deleted
	more    bool  // the search ended before the last expired record
}

func newGroup() *group { return &group{done: make(chan struct{})} }

// wait returns when the group is done, or the context's error if that ends first.
func wait(ctx context.Context, g *group) error {
	select {
	case <-g.done:
		return nil
	default:
	}
	select {
	case <-g.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// overdue is the timer's function: the lazy changes of the current group are due.
func (s *Store) overdue() {
	s.mu.Lock()
	s.current.due = s.current.due || s.current.lazy
	s.mu.Unlock()
	s.signal()
}

// signal wakes the writer.
func (s *Store) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// write is the goroutine that hands groups to Pebble. The next group is written while the last one is synced.
func (s *Store) write(db *pebble.DB) {
	defer close(s.applied)
	for range s.wake {
		for {
			g, end := s.seal()
			if end {
				return
			}
			if g == nil {
				break
			}
			if err := s.apply(db, g); err != nil {
				s.breakDown(err)
				return
			}
			s.applied <- g
		}
	}
}

// sync is the goroutine that settles groups after their sync.
func (s *Store) sync() {
	defer s.stop()
	for g := range s.applied {
		if err := g.batch.SyncWait(); err != nil {
			s.breakDown(err)
			continue
		}
		s.settle(g)
		_ = g.batch.Close() // returns the batch to Pebble's pool, and no error
	}
}

// seal ends the current group if it is due. It returns no group otherwise. end reports that none follows.
func (s *Store) seal() (g *group, end bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g = s.current
	if s.broken != nil || !g.due && !(s.closing && len(g.rows) > 0) {
		return nil, s.broken != nil || s.closing
	}
	s.current = newGroup()
	s.unsettled = append(s.unsettled, g)
	s.groups++
	g.now = s.clock.Now()
	if s.fence > s.fences {
		s.fences = s.fence + fenceBlock
		g.state = &envelope.State{Fence: s.fences, Epoch: s.epoch}
	}
	return g, false
}

// apply hands the group to Pebble. Only the last batch is synced, and its sync covers those before it.
func (s *Store) apply(db *pebble.DB, g *group) (err error) {
	defer func() {
		if p := recover(); p != nil { // Pebble panics if it can't write its log
			s.block()
			err = fmt.Errorf("%v", p)
		}
	}()
	b := db.NewBatch()
	next := func() error {
		err := db.Apply(b, pebble.NoSync)
		b = db.NewBatch()
		return err
	}
	if g.state != nil {
		_ = b.Set(stateKey, g.state.Append(nil), nil) // a batch takes every key
	}
	// Pebble inserts neighbours faster, so the rows are sorted, and the indexes come after the records.
	slices.SortFunc(g.rows, func(a, b *row) int { return strings.Compare(a.key, b.key) })
	fresh := 0
	for rows := g.rows; len(rows) > 0; {
		n := 0
		for ; n < len(rows) && b.Len() <= s.maxBatch; n++ {
			putRecord(b, rows[n])
		}
		for _, r := range rows[:n] {
			s.index(b, r)
			if created(r.was, r.rec) {
				fresh++
			}
		}
		if rows = rows[n:]; len(rows) > 0 {
			if err := next(); err != nil {
				return err
			}
		}
	}
	if limit := g.purge + freed*fresh; limit > 0 && s.from(g.again) <= g.now {
		if err := next(); err != nil { // so that reads of db see the rows
			return err
		}
		s.free(db, b, g, limit)
	}
	if b.Empty() {
		_ = b.LogData(nil, nil) // Pebble does not sync an empty batch
	}
	g.batch = b
	return db.ApplyNoSyncWait(b, pebble.Sync)
}

// putRecord puts a row's record into the batch.
func putRecord(b *pebble.Batch, r *row) {
	if r.rec == nil {
		_ = b.Delete(append([]byte{recordsPrefix}, r.key...), nil)
		return
	}
	op := b.SetDeferred(1+len(r.key), r.rec.size())
	op.Key[0] = recordsPrefix
	copy(op.Key[1:], r.key)
	appendRecord(op.Value[:0], op.Key[1:], r.rec)
	_ = op.Finish() // no index of a batch can refuse it
}

// index moves a row's entries in the indexes.
func (s *Store) index(b *pebble.Batch, r *row) {
	var was, is record
	if r.was != nil {
		was = *r.was
	}
	if r.rec != nil {
		is = *r.rec
	}
	key := []byte(r.key)
	move(b, pendingPrefix, key, envelope.Listed(was.Record), envelope.Listed(is.Record))
	at := envelope.Nanos(is.ExpiresAt)
	move(b, expiryPrefix, key, envelope.Nanos(was.ExpiresAt), at)
	if at != 0 && at < s.due.Load() {
		s.due.Store(at)
	}
	for _, k := range r.drop {
		_ = b.Delete(k, nil)
	}
}

// move replaces a record's entry in an index. The instant zero means no entry.
func move(b *pebble.Batch, prefix byte, key []byte, was, is int64) {
	if was == is {
		return
	}
	var buf [160]byte
	if was != 0 {
		_ = b.Delete(appendIndexKey(buf[:0], prefix, was, key), nil)
	}
	if is != 0 {
		_ = b.Set(appendIndexKey(buf[:0], prefix, is, key), nil, nil)
	}
}

// settle ends a group that is on disk.
func (s *Store) settle(g *group) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return
	}
	s.unsettled = s.unsettled[1:]
	if g.state != nil {
		s.reserved = g.state.Fence
	}
	for _, r := range g.rows {
		delete(s.overlay, r.key)
		s.recent.put(r.key, r.rec)
		s.notify(r.key)
	}
	close(g.done)
}

// breakDown ends the store after a write that failed. Groups that Pebble has may be on disk. The current group is not.
func (s *Store) breakDown(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return
	}
	s.broken = fmt.Errorf("%w: %q: %w: %w", ErrBroken, s.path, err, store.ErrUnavailable)
	for _, g := range s.unsettled {
		g.err = fmt.Errorf("%w: %q: %w: %w", ErrBroken, s.path, err, store.ErrUnknown)
		close(g.done)
	}
	s.current.err = s.broken
	close(s.current.done)
	for _, r := range s.overlay {
		if r.lazy {
			s.closeErr = fmt.Errorf("closing: lazy changes may be lost: %w", s.broken)
		}
	}
	s.Pushed(true)
	s.signal()
}
