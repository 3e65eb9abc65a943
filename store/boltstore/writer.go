package boltstore

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"

	"github.com/redo-go/redo/store"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// A write is one record as a commit leaves it; a nil record is removed.
type write struct {
	key string
	rec *record
}

// A writer is the goroutine that commits. Its buffers are reused from one commit to the next.
type writer struct {
	*Store
	writes []write
	arena  []byte
	keys   []byte
	last   uint64 // changes in the last group
}

// maxArena is the size of an encoding buffer that is kept for the next commit.
const maxArena = 1 << 20

func (w *writer) run() {
	defer close(w.stopped)
	for range w.wake {
		for w.flush() {
		}
		w.mu.Lock()
		closing := w.closing
		w.mu.Unlock()
		if closing {
			w.shut()
			return
		}
	}
}

// flush commits the current group if it is due, and reports whether there may be more.
func (w *writer) flush() bool {
	w.gather()
	w.mu.Lock()
	g := w.current
	if w.broken != nil || !g.due && (!w.closing || len(g.cells) == 0) {
		w.mu.Unlock()
		return false
	}
	w.current = newGroup()
	w.writes = w.writes[:0]
	for _, c := range g.cells {
		w.writes = append(w.writes, write{c.key, c.rec})
	}
	st := state{fence: w.fence, epoch: w.epoch}
	w.stats.Groups++
	w.stats.Transitions += g.changes
	w.stats.Largest = max(w.stats.Largest, g.changes)
	w.mu.Unlock()
	w.last = g.changes

	err, unknown := w.write(st)

	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.stats.Commits++
		w.succeed(g)
		return true
	}
	w.stats.Failures++
	kind := store.ErrUnavailable
	if unknown {
		kind = store.ErrUnknown
	}
	w.fail(g, fmt.Errorf("boltstore: %q: commit: %w: %w", w.path, err, kind), unknown)
	if errors.Is(err, ErrCorrupt) {
		// bbolt gave up halfway: neither its memory nor its locks are to be relied on.
		w.broken = explain(w.path, err)
		w.notifyAll()
	}
	if w.closing && len(w.overlay) > 0 {
		w.closeErr = fmt.Errorf("boltstore: %q: closing: lazy outcomes are lost: %w", w.path, err)
		return false
	}
	return true
}

// gather lets callers that the last commit has answered come back before the next group is sealed. Otherwise
// they fall into two halves that wait for each other's commits, and what a commit costs hardly depends on the
// size of its group. It yields while the group grows, some microseconds in all; a single caller is never kept
// waiting.
func (w *writer) gather() {
	if w.last < 2 {
		return
	}
	before, still := uint64(0), 0
	for yields := 0; yields < 64 && still < 3; yields++ {
		w.mu.Lock()
		n := w.current.changes
		w.mu.Unlock()
		if n > 0 && n == before {
			still++
		} else {
			still = 0
		}
		before = n
		runtime.Gosched()
	}
}

// write commits the writes. An error that is not unknown means that the file is as it was.
func (w *writer) write(st state) (err error, unknown bool) {
	var tx *bbolt.Tx
	err = guarded(func() (err error) {
		if tx, err = w.db.Begin(true); err != nil {
			return err
		}
		if err = w.apply(tx, st); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		id := tx.ID()
		if err = w.commit(tx); err != nil {
			unknown = w.reached(tx, id, err)
		}
		return err
	})
	if err != nil && errors.Is(err, ErrCorrupt) && tx != nil {
		// A panic comes before bbolt writes its meta page, so nothing was changed. Closing needs the lock.
		w.stuck = errors.Is(guarded(tx.Rollback), ErrCorrupt)
	}
	w.recycle()
	return err, unknown
}

// reached reports whether a failed commit may have reached the disk.
func (w *writer) reached(tx *bbolt.Tx, id int, err error) bool {
	visible := true
	_ = guarded(func() error {
		read, err := w.db.Begin(false)
		if err != nil {
			return err
		}
		visible = read.ID() >= id
		return read.Rollback()
	})
	stats := tx.Stats()
	return mayBeWritten(err, stats.GetWrite(), visible)
}

// mayBeWritten judges a failed commit by its error, the number of pages it wrote, and whether its meta page can
// be read. bbolt writes the data pages, syncs, writes the meta page, syncs; the meta page is what makes the
// commit. So nothing was changed when no page was written, or a write failed and the meta page is the old
// one. After a failed sync nobody can tell which of the two it was, nor what the disk holds.
func mayBeWritten(err error, pages int64, visible bool) bool {
	if visible {
		return true
	}
	var pe *fs.PathError
	writeFailed := errors.As(err, &pe) && pe.Op == "write"
	return pages > 0 && !writeFailed && !errors.Is(err, berrors.ErrMaxSizeReached)
}

// apply puts the writes into the transaction, in key order: neighbours share pages.
func (w *writer) apply(tx *bbolt.Tx, st state) error {
	b, err := open(tx)
	if err != nil {
		return err
	}
	// Index keys mostly grow, so their pages need no room for later.
	b.pending.FillPercent, b.expiry.FillPercent = 0.9, 0.9
	slices.SortFunc(w.writes, func(a, b write) int { return strings.Compare(a.key, b.key) })
	size := 0
	for _, wr := range w.writes {
		if wr.rec != nil {
			size += wr.rec.size()
		}
	}
	// bbolt keeps the values until the commit: one buffer for all of them, that must not move.
	w.arena = slices.Grow(w.arena[:0], size)
	for _, wr := range w.writes {
		if err := w.applyOne(b, wr); err != nil {
			return err
		}
	}
	return b.root.Put(stateKey, st.append(nil))
}

func (w *writer) applyOne(b buckets, wr write) error {
	key := []byte(wr.key)
	var old record
	if v := b.records.Get(key); v != nil {
		var err error
		if old, err = decodeHeader(key, v); err != nil {
			return err
		}
	}
	var next record
	if wr.rec != nil {
		next = *wr.rec
		start := len(w.arena)
		w.arena = appendRecord(w.arena, key, wr.rec)
		if err := b.records.Put(key, w.arena[start:len(w.arena):len(w.arena)]); err != nil {
			return err
		}
	} else if err := b.records.Delete(key); err != nil {
		return err
	}
	was, is := indexed(old.pending(), old.created), indexed(next.pending(), next.created)
	if err := w.move(b.pending, key, was, is); err != nil {
		return err
	}
	return w.move(b.expiry, key, indexed(old.expires != 0, old.expires), indexed(next.expires != 0, next.expires))
}

// A place is where a record stands in an index.
type place struct {
	in bool
	at int64
}

func indexed(in bool, at int64) place {
	if !in {
		return place{}
	}
	return place{true, at}
}

func (w *writer) move(b *bbolt.Bucket, key []byte, was, is place) error {
	if was == is {
		return nil
	}
	if was.in {
		w.keys = appendIndexKey(w.keys[:0], was.at, key)
		if err := b.Delete(w.keys); err != nil {
			return err
		}
	}
	if is.in {
		w.keys = appendIndexKey(w.keys[:0], is.at, key)
		return b.Put(w.keys, nil)
	}
	return nil
}

func (w *writer) recycle() {
	clear(w.writes)
	if cap(w.arena) > maxArena {
		w.arena = nil
	}
}

// shut closes the file. Reads that have begun finish first.
func (w *writer) shut() {
	err := w.closeFile()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closeErr != nil:
	case len(w.overlay) > 0: // the store broke and what is left are lazy outcomes
		w.closeErr = fmt.Errorf("boltstore: %q: closing: lazy outcomes are lost: %w", w.path, w.broken)
	case err != nil:
		w.closeErr = fmt.Errorf("boltstore: %q: closing: %w", w.path, err)
	}
	w.notifyAll()
}
