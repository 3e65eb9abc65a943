package boltoutbox

import (
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
)

// ErrFormat: the bucket, or an event in it, is not this package's, or a later release wrote it.
var ErrFormat = errors.New("boltoutbox: unknown format")

// ErrCorrupt: the content of the bucket contradicts itself.
var ErrCorrupt = errors.New("boltoutbox: bucket corrupt")

var errNoBucket = errors.New("boltoutbox: no bucket")

// magic is the value of the format key. Its last byte is the version.
const magic = "redo boltoutbox \x01"

// Names below the root bucket.
var (
	formatKey = []byte("format")
	countsKey = []byte("counts")
)

// A file is a transaction's view of the queue.
type file struct {
	root    *bbolt.Bucket // its sequence gives fences
	events  *bbolt.Bucket // seq → event; its sequence gives seqs
	states  *bbolt.Bucket // seq → state
	ids     *bbolt.Bucket // id → seq
	waiting *bbolt.Bucket // seq of each event that is waiting or leased
	due     *bbolt.Bucket // instant, seq of those that have no ordering key or are the front of their line
	lines   *bbolt.Bucket // ordering key, 0, seq of each event that is waiting or leased
	fronts  *bbolt.Bucket // ordering key → seq of the event that may be claimed
	held    *bbolt.Bucket // ordering key, 0, seq of each dead letter
	dead    *bbolt.Bucket // instant, seq
	sent    *bbolt.Bucket // instant, seq
	changed bool          // something was written
	wakes   bool          // an event may have become due
}

func (f *file) buckets() map[string]**bbolt.Bucket {
	return map[string]**bbolt.Bucket{
		"events": &f.events, "states": &f.states, "ids": &f.ids, "waiting": &f.waiting, "due": &f.due, "lines": &f.lines,
		"fronts": &f.fronts, "held": &f.held, "dead": &f.dead, "sent": &f.sent,
	}
}

func (q *Queue) open(tx *boltstore.Tx) (*file, error) {
	f := &file{root: tx.Bucket(q.name)}
	if f.root == nil {
		return nil, errNoBucket
	}
	if string(f.root.Get(formatKey)) != magic {
		return nil, fmt.Errorf("%w: the bucket %q: %w", ErrFormat, q.name, store.ErrUnavailable)
	}
	for name, b := range f.buckets() {
		if *b = f.root.Bucket([]byte(name)); *b == nil {
			return nil, corrupt("the bucket %q is gone", name)
		}
	}
	return f, nil
}

// create makes the bucket, unless it exists.
func (q *Queue) create(tx *boltstore.Tx) error {
	if tx.Bucket(q.name) != nil {
		_, err := q.open(tx)
		return err
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
	return root.Put(formatKey, []byte(magic))
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s: %w", ErrCorrupt, fmt.Sprintf(format, args...), store.ErrUnavailable)
}

// A place is an entry of an index by instant.
type place struct {
	at  int64
	seq uint64
}

func (p place) key() []byte {
	k := binary.BigEndian.AppendUint64(make([]byte, 0, 16), uint64(p.at))
	return binary.BigEndian.AppendUint64(k, p.seq)
}

func parsePlace(k []byte) (place, error) {
	if len(k) != 16 {
		return place{}, corrupt("an index has a key of %d bytes", len(k))
	}
	return place{int64(binary.BigEndian.Uint64(k)), binary.BigEndian.Uint64(k[8:])}, nil
}

func seqKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

func parseSeq(k []byte) (uint64, error) {
	if len(k) != 8 {
		return 0, corrupt("a sequence number has %d bytes", len(k))
	}
	return binary.BigEndian.Uint64(k), nil
}

// lineKey orders by the ordering key, which has no control character, and then by seq.
func lineKey(key string, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(append([]byte(key), 0), seq)
}

// counts are written with every change, so that Stats need not count.
type counts struct{ waiting, dead uint64 }

func (f *file) counts() (counts, error) {
	v := f.root.Get(countsKey)
	switch len(v) {
	case 0:
		return counts{}, nil
	case 16:
		return counts{binary.BigEndian.Uint64(v), binary.BigEndian.Uint64(v[8:])}, nil
	}
	return counts{}, corrupt("the counts have %d bytes", len(v))
}

// count counts an event that moves from one status to another. A status of zero is absent.
func (f *file) count(from, to status) error {
	c, err := f.counts()
	if err != nil {
		return err
	}
	for _, step := range []struct {
		of status
		by uint64
	}{{from, ^uint64(0)}, {to, 1}} {
		switch step.of {
		case isWaiting:
			c.waiting += step.by
		case isDead:
			c.dead += step.by
		}
	}
	v := binary.BigEndian.AppendUint64(nil, c.waiting)
	return f.root.Put(countsKey, binary.BigEndian.AppendUint64(v, c.dead))
}

// find returns the seq of an id, or zero.
func (f *file) find(id string) (uint64, error) {
	v := f.ids.Get([]byte(id))
	if v == nil {
		return 0, nil
	}
	return parseSeq(v)
}

// letter returns a dead letter's seq and state.
func (f *file) letter(id string) (uint64, state, error) {
	seq, err := f.find(id)
	if err != nil {
		return 0, state{}, err
	}
	if seq == 0 {
		return 0, state{}, fmt.Errorf("%w: %.300q", outbox.ErrNoLetter, id)
	}
	s, err := f.state(seq)
	if err == nil && s.status != isDead {
		err = fmt.Errorf("%w: %.300q", outbox.ErrNoLetter, id)
	}
	return seq, s, err
}
