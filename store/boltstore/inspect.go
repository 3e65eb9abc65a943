package boltstore

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"io"
	"math/bits"
)

// A file of bbolt's starts with two meta pages, of which the valid one with the higher transaction number
// counts. bbolt picks it without a word when the other is damaged, and maps what the file does not have; so
// the file is looked at first. Integers are in the machine's byte order.
//
// Page header: id 8, flags 2, count 2, overflow 4. Meta, after it: magic 4, version 4, page size 4, flags 4,
// root page 8, root sequence 8, free list's page 8, pages in use 8, transaction 8, FNV-1a of all that 8.
const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2

	pageHeader = 16
	metaSize   = 64
	noFreelist = ^uint64(0)

	minPageSize = 1 << 10
	maxPageSize = 1 << 24
)

var native = binary.NativeEndian

// A layout is what the meta page in force says.
type layout struct {
	pageSize int
	root     uint64
	freelist uint64
	pages    uint64 // pages in use: every page's number is below
	txid     uint64
}

// inspect finds the meta page in force and checks that the file is whole. A file with a single valid meta page
// is accepted only if olderMeta says so.
func inspect(r io.ReaderAt, size int64, olderMeta bool) (layout, error) {
	first, err := readMeta(r, 0)
	second, err2 := layout{}, err
	switch {
	case err == nil:
		second, err2 = readMeta(r, int64(first.pageSize))
	case isReadError(err):
		return layout{}, err
	default:
		for pageSize := int64(minPageSize); pageSize <= maxPageSize; pageSize *= 2 {
			l, e := readMeta(r, pageSize)
			if e == nil && int64(l.pageSize) == pageSize {
				second, err2 = l, nil
				break
			}
		}
	}
	var l layout
	switch {
	case err == nil && err2 == nil:
		l = first
		if second.txid > first.txid {
			l = second
		}
	case err == nil && size < 2*int64(first.pageSize):
		return layout{}, corrupt("it is cut short: %d bytes", size)
	case err == nil && olderMeta:
		l = first
	case err2 == nil && olderMeta:
		l = second
	case err == nil || err2 == nil:
		return layout{}, corrupt("one of its two meta pages is damaged: the last commit may be lost, see WithOlderMeta")
	default:
		return layout{}, err
	}
	if need := int64(l.pages) * int64(l.pageSize); l.pages > uint64(1<<62)/uint64(l.pageSize) || size < need {
		return layout{}, corrupt("it is cut short: %d bytes where %d pages of %d bytes are in use", size, l.pages, l.pageSize)
	}
	if l.root < 2 || l.root >= l.pages {
		return layout{}, corrupt("its root page %d is not one of its %d pages", l.root, l.pages)
	}
	return l, checkFreelist(r, l)
}

// isReadError tells an error of the disk from a verdict on what was read.
func isReadError(err error) bool {
	return err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrFormat)
}

func readMeta(r io.ReaderAt, off int64) (layout, error) {
	var b [pageHeader + metaSize]byte
	if _, err := r.ReadAt(b[:], off); errors.Is(err, io.EOF) {
		return layout{}, unknownFormat("it is not a redo store")
	} else if err != nil {
		return layout{}, err
	}
	m := b[pageHeader:]
	switch got := native.Uint32(m); {
	case got == bits.ReverseBytes32(boltMagic):
		return layout{}, unknownFormat("it was written by a machine of another byte order")
	case got != boltMagic:
		return layout{}, unknownFormat("it is not a redo store")
	}
	sum := fnv.New64a()
	sum.Write(m[:56])
	if sum.Sum64() != native.Uint64(m[56:]) {
		return layout{}, corrupt("its meta pages don't match their checksums")
	}
	if v := native.Uint32(m[4:]); v != boltVersion {
		return layout{}, unknownFormat("it is a bbolt file of version %d, not %d", v, boltVersion)
	}
	pageSize := native.Uint32(m[8:])
	if pageSize < minPageSize || pageSize > maxPageSize || bits.OnesCount32(pageSize) != 1 {
		return layout{}, corrupt("its page size is %d", pageSize)
	}
	return layout{
		pageSize: int(pageSize),
		root:     native.Uint64(m[16:]),
		freelist: native.Uint64(m[32:]),
		pages:    native.Uint64(m[40:]),
		txid:     native.Uint64(m[48:]),
	}, nil
}

// checkFreelist keeps bbolt from handing out pages that can't be free.
func checkFreelist(r io.ReaderAt, l layout) error {
	if l.freelist == noFreelist {
		return unknownFormat("it has no free list; open it once with bbolt's NoFreelistSync off")
	}
	_, err := freePages(r, l)
	return err
}

// freePages reads the free list.
func freePages(r io.ReaderAt, l layout) ([]uint64, error) {
	p, err := readPage(r, l, l.freelist)
	if err != nil {
		return nil, err
	}
	if p.flags != freelistPage {
		return nil, corrupt("page %d is no free list", l.freelist)
	}
	ids := p.data[pageHeader:]
	n := uint64(p.count)
	if n == 0xFFFF {
		// A count that does not fit stands before the list.
		n, ids = native.Uint64(ids), ids[8:]
	}
	if n > uint64(len(ids)/8) {
		return nil, corrupt("the free list says %d pages and has room for %d", n, len(ids)/8)
	}
	free := make([]uint64, n)
	last := uint64(1)
	for i := range free {
		id := native.Uint64(ids[8*i:])
		if id <= last || id >= l.pages || id == l.root || id == l.freelist {
			return nil, corrupt("the free list names page %d", id)
		}
		free[i], last = id, id
	}
	return free, nil
}
