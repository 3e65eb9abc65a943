package boltstore

import (
	"hash/crc32"

	"github.com/redo-go/redo/internal/envelope"
	"go.etcd.io/bbolt"
)

// maxDepth bounds the nesting of buckets. Only a damaged file has a bucket that contains itself.
const maxDepth = 100

// whole checks that a file of the size has all its pages.
func whole(tx *bbolt.Tx, size int64) error {
	if size < tx.Size() {
		return corrupt("it is cut short: %d bytes where %d are in use", size, tx.Size())
	}
	return nil
}

// checkPages runs bbolt's check of all pages. It must not run beside a writer.
func checkPages(tx *bbolt.Tx) error {
	// bbolt checks in another goroutine, where a fault over a damaged page ends the process. So the same pages are read in
	// this one before.
	if err := guarded(func() error { return readPages(tx) }); err != nil {
		return err
	}
	var first error
	for err := range tx.Check() { // to the end, because the goroutine uses the transaction
		if first == nil {
			first = corrupt("%w", err)
		}
	}
	return first
}

// readPages reads every page, key and value.
func readPages(tx *bbolt.Tx) error {
	pages := int(tx.Size() / int64(tx.DB().Info().PageSize))
	for id := 2; id < pages; { // after the two meta pages
		p, err := tx.Page(id)
		switch {
		case err != nil:
			return err
		case p.Type == "free":
			id++
			continue
		case p.Type != "branch" && p.Type != "leaf" && p.Type != "freelist":
			return corrupt("page %d is of the type %s", id, p.Type)
		case p.OverflowCount >= pages-id:
			return corrupt("page %d runs over the end of the file", id)
		}
		id += 1 + p.OverflowCount
	}
	return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error { return readBucket(b, 1) })
}

func readBucket(b *bbolt.Bucket, depth int) error {
	if depth > maxDepth {
		return corrupt("buckets are nested deeper than %d", maxDepth)
	}
	b.Stats() // visits the pages before a cursor follows them
	sum := uint32(0)
	return b.ForEach(func(k, v []byte) error {
		sum = crc32.Update(sum, envelope.Castagnoli, k)
		sum = crc32.Update(sum, envelope.Castagnoli, v)
		if v != nil {
			return nil
		}
		if child := b.Bucket(k); child != nil {
			return readBucket(child, depth+1)
		}
		return nil
	})
}
