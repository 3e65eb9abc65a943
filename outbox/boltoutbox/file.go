package boltoutbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"

	"go.etcd.io/bbolt"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
)

// ErrFormat means that the bucket belongs to another application, or that another version of this package wrote
// it.
var ErrFormat = errors.New("boltoutbox: unknown format")

// ErrCorrupt means that the content of the bucket contradicts itself, or that a page of the file can't be read.
var ErrCorrupt = errors.New("boltoutbox: bucket corrupt")

var errNoBucket = errors.New("boltoutbox: no bucket")

// magic is the value of the format key. Its last byte is the version.
const magic = "redo boltoutbox \x02"

var formatKey = []byte("format")

// file is a transaction's view of the queue. Its first error is kept, and the transaction is then rolled back.
//
// A line is a destination and an ordering key. A dead letter holds the events of its line that are behind it. A
// destination has two lanes: one for the lines that are held, one for the others and for events without a line. In
// keys a zero byte ends an id, a destination and an ordering key, which contain none.
type file struct {
	root     *bbolt.Bucket // its sequence gives fences
	events   *bbolt.Bucket // seq → header and payload; its sequence gives seqs
	waiting  *bbolt.Bucket // seq → state; its sequence is the number of entries
	dead     *bbolt.Bucket // seq → state; its sequence is the number of entries
	deaths   *bbolt.Bucket // instant, seq of each dead letter
	sent     *bbolt.Bucket // instant of Enqueue, seq → key in ids
	ids      *bbolt.Bucket // id, destination → seq
	history  *bbolt.Bucket // seq, fence → failure
	due      *bbolt.Bucket // lane, instant, seq of each waiting event without an ordering key and of each line's first
	lanes    *bbolt.Bucket // lane → its first instant in due, unless the destination is disabled
	fronts   *bbolt.Bucket // held, instant, destination of each entry in lanes
	lines    *bbolt.Bucket // line → its key in due
	members  *bbolt.Bucket // line, seq → instant at which the waiting event is due
	leased   *bbolt.Bucket // line, seq → end of the lease
	held     *bbolt.Bucket // line, seq of each dead letter
	disabled *bbolt.Bucket // destination → reason

	now     int64
	touched touched
	changed bool // something was written
	wakes   bool // an event may have become due
	reads   int  // entries that were read; tests bound it
	err     error
}

func (f *file) buckets() map[string]**bbolt.Bucket {
	return map[string]**bbolt.Bucket{
		"events": &f.events, "waiting": &f.waiting, "dead": &f.dead, "deaths": &f.deaths, "sent": &f.sent,
		"ids":     &f.ids,
		"history": &f.history, "due": &f.due, "lanes": &f.lanes, "fronts": &f.fronts, "lines": &f.lines,
		"members": &f.members, "leased": &f.leased, "held": &f.held, "disabled": &f.disabled,
	}
}

func (q *Queue) open(tx *boltstore.Tx, now int64) (*file, error) {
	f := &file{root: tx.Bucket(q.name), now: now, touched: touched{map[string]bool{}, map[string]bool{}}}
	if f.root == nil {
		return nil, errNoBucket
	}
	if format := string(f.root.Get(formatKey)); format != magic {
		return nil, fmt.Errorf("%w: the bucket %q has the format %.40q, it must be %q: %w",
			ErrFormat, q.name, format, magic, store.ErrUnavailable)
	}
	for name, b := range f.buckets() {
		if *b = f.root.Bucket([]byte(name)); *b == nil {
			return nil, corrupt("the bucket %q is gone", name)
		}
	}
	return f, nil
}

// find checks the bucket, and keeps its file.
func (q *Queue) find(tx *boltstore.Tx) error {
	f, err := q.open(tx, 0)
	if err == nil {
		q.db = f.root.Tx().DB()
	}
	return err
}

// create makes the bucket, unless it exists.
func (q *Queue) create(tx *boltstore.Tx) error {
	if tx.Bucket(q.name) != nil {
		return q.find(tx)
	}
	root, err := tx.CreateBucket(q.name)
	if err != nil {
		return err
	}
	for name := range new(file).buckets() {
		if _, err := root.CreateBucket([]byte(name)); err != nil {
			return err
		}
	}
	q.db = root.Tx().DB()
	return root.Put(formatKey, []byte(magic))
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s: %w", ErrCorrupt, fmt.Sprintf(format, args...), store.ErrUnavailable)
}

// guarded turns a panic in f into an error. bbolt trusts its file: a damaged page makes it panic, or read outside the
// mapping. boltstore guards only its own reads, because a panic of an application must reach the application.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = corrupt("a page can't be read, because the file is damaged or cut short: %v", p)
		}
	}()
	return f()
}

func (f *file) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

func (f *file) set(b *bbolt.Bucket, key, value []byte) {
	f.changed = true
	if err := b.Put(key, value); err != nil {
		f.fail(err)
	}
}

func (f *file) unset(b *bbolt.Bucket, key []byte) {
	f.changed = true
	if err := b.Delete(key); err != nil {
		f.fail(err)
	}
}

// count adds n to the number of entries in a bucket.
func (f *file) count(b *bbolt.Bucket, n int) {
	if err := b.SetSequence(b.Sequence() + uint64(n)); err != nil {
		f.fail(err)
	}
}

func (f *file) next(b *bbolt.Bucket) uint64 {
	n, err := b.NextSequence()
	if err != nil {
		f.fail(err)
	}
	return n
}

func (f *file) get(b *bbolt.Bucket, key []byte) []byte {
	f.reads++
	return b.Get(key)
}

// scan reads the entries of a bucket whose keys have a prefix.
type scan struct {
	f      *file
	cursor *bbolt.Cursor
	prefix []byte
	key    []byte // without the prefix; nil at the end
	value  []byte
}

// scan starts at the first key that is not before prefix and start.
func (f *file) scan(b *bbolt.Bucket, prefix, start []byte) *scan {
	s := &scan{f: f, cursor: b.Cursor(), prefix: prefix}
	s.read(s.cursor.Seek(append(bytes.Clone(prefix), start...)))
	return s
}

func (s *scan) next() { s.read(s.cursor.Next()) }

func (s *scan) read(key, value []byte) {
	s.f.reads++
	s.key, s.value = nil, nil
	if key != nil && bytes.HasPrefix(key, s.prefix) {
		s.key, s.value = key[len(s.prefix):], value
	}
}

// number encodes seqs, fences and instants, which are Unix nanoseconds.
func number[N int64 | uint64](n N) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// parse decodes the number at the start of b.
func (f *file) parse(b []byte) uint64 {
	if len(b) < 8 {
		f.fail(corrupt("a number has %d bytes", len(b)))
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// place is the end of a key in an index by instant.
type place struct {
	at  int64
	seq uint64
}

func (p place) key() []byte { return append(number(p.at), number(p.seq)...) }

func (f *file) place(b []byte) place {
	if len(b) != 16 {
		f.fail(corrupt("a place has %d bytes", len(b)))
		return place{}
	}
	return place{int64(f.parse(b)), f.parse(b[8:])}
}
