package main

import (
	"context"
	"encoding/binary"
	"encoding/json"

	"github.com/redo-go/redo/outbox/boltoutbox"
	"github.com/redo-go/redo/store/boltstore"
)

// inFile opens the file of a process: its records, its ledger and, for the producer, its outbox.
func inFile(ctx context.Context, path string) (*place[*boltstore.Tx], error) {
	st, err := boltstore.Open(path)
	if err != nil {
		return nil, err
	}
	queue, err := boltoutbox.New(ctx, st)
	if err != nil {
		return nil, err
	}
	return &place[*boltstore.Tx]{
		records: st, books: boltLedger{st}, queue: queue, enqueue: queue.Enqueue, close: func() { _ = st.Close() },
	}, nil
}

// A boltLedger keeps entries in a bucket beside redo's own.
type boltLedger struct{ file *boltstore.Store }

var ledgerBucket = []byte("ledger")

func (boltLedger) next(_ context.Context, tx *boltstore.Tx) (int, error) {
	b, err := tx.CreateBucketIfNotExists(ledgerBucket)
	if err != nil {
		return 0, err
	}
	n, err := b.NextSequence()
	return int(n), err
}

// left need not lock anything: bbolt has one write transaction at a time.
func (boltLedger) left(_ context.Context, tx *boltstore.Tx, payment string) (int, error) {
	left := 0
	err := eachEntry(tx, func(e entry) {
		if e.Payment == payment {
			left += e.change()
		}
	})
	return left, err
}

func (boltLedger) enter(_ context.Context, tx *boltstore.Tx, e entry) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return tx.Bucket(ledgerBucket).Put(binary.BigEndian.AppendUint64(nil, uint64(e.Number)), line)
}

func (l boltLedger) entries(ctx context.Context) (entries []entry, err error) {
	err = l.file.View(ctx, func(tx *boltstore.Tx) error {
		return eachEntry(tx, func(e entry) { entries = append(entries, e) })
	})
	return entries, err
}

func eachEntry(tx *boltstore.Tx, do func(entry)) error {
	b := tx.Bucket(ledgerBucket)
	if b == nil {
		return nil
	}
	return b.ForEach(func(_, line []byte) error {
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		do(e)
		return nil
	})
}
