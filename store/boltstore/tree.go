package boltstore

import (
	"encoding/binary"
	"hash/fnv"
	"io"
)

// The layout of bbolt's pages. All numbers are in the byte order of the machine.
const (
	pageHeader  = 16 // id, flags, count, overflow
	elementSize = 16 // of a branch: position, size of the key, page; of a leaf: flags, position, sizes of key and value
	branchPage  = 1
	leafPage    = 2
	bucketFlag  = 1  // of a leaf's element
	metaSum     = 56 // where the checksum of a meta page is, after the header
)

var native = binary.NativeEndian

// A tree reads the pages that are in use directly from the file, before bbolt follows their numbers.
type tree struct {
	file io.ReaderAt
	size int    // of a page
	end  uint64 // the number of pages in use
	seen []bool // the pages that were read
}

// checkMetas checks both meta pages. bbolt needs one of them, and uses the older one if the newer one is damaged. That
// would lose the last commit. No power cut explains a damaged one, because its data lie within one sector.
func checkMetas(file io.ReaderAt, size int) error {
	for i := range metaPages {
		meta := make([]byte, pageHeader+metaSum+8)
		if _, err := file.ReadAt(meta, int64(i*size)); err != nil {
			return corrupt("reading meta page %d: %w", i, err)
		}
		meta = meta[pageHeader:]
		h := fnv.New64a()
		_, _ = h.Write(meta[:metaSum])
		if h.Sum64() != native.Uint64(meta[metaSum:]) {
			return corrupt("meta page %d does not match its checksum, so the last commit may be lost", i)
		}
	}
	return nil
}

// checkTree reads all pages from the root, and returns an error if one is referred to twice. bbolt would follow a page
// that refers to itself until the process dies. The transaction's meta page is the one of its number.
func checkTree(file io.ReaderAt, size int, tx int) error {
	meta := make([]byte, pageHeader+metaSum)
	if _, err := file.ReadAt(meta, int64(tx%metaPages*size)); err != nil {
		return corrupt("reading meta page %d: %w", tx%metaPages, err)
	}
	meta = meta[pageHeader:]
	t := tree{file: file, size: size, end: native.Uint64(meta[40:])}
	if t.end > 1<<48/uint64(size) {
		return corrupt("%d pages are in use", t.end)
	}
	t.seen = make([]bool, t.end)
	return t.walk(native.Uint64(meta[16:]))
}

// walk reads a page and those below it.
func (t *tree) walk(id uint64) error {
	if id < metaPages || id >= t.end {
		return corrupt("there is a reference to page %d, and pages %d to %d are in use", id, metaPages, t.end-1)
	}
	if t.seen[id] {
		return corrupt("there are two references to page %d", id)
	}
	t.seen[id] = true
	header := make([]byte, pageHeader)
	if _, err := t.file.ReadAt(header, int64(id)*int64(t.size)); err != nil {
		return corrupt("reading page %d: %w", id, err)
	}
	flags, count, overflow := native.Uint16(header[8:]), int(native.Uint16(header[10:])), native.Uint32(header[12:])
	if got := native.Uint64(header); got != id || flags != branchPage && flags != leafPage {
		return corrupt("page %d has the number %d and the flags %#x", id, got, flags)
	}
	if uint64(overflow) >= t.end-id {
		return corrupt("page %d runs over the end of the file", id)
	}
	page := make([]byte, (int(overflow)+1)*t.size)
	if _, err := t.file.ReadAt(page, int64(id)*int64(t.size)); err != nil {
		return corrupt("reading page %d: %w", id, err)
	}
	if pageHeader+count*elementSize > len(page) {
		return corrupt("page %d has %d elements, which do not fit", id, count)
	}
	for i := range count {
		at := pageHeader + i*elementSize
		child, err := reference(page[at:], flags)
		if err != nil {
			return corrupt("element %d of page %d: %w", i, id, err)
		}
		if child == 0 {
			continue
		}
		if err := t.walk(child); err != nil {
			return err
		}
	}
	return nil
}

// reference returns the page that an element at the start of b refers to, or zero if there is none.
func reference(b []byte, flags uint16) (uint64, error) {
	if flags == branchPage {
		return max(native.Uint64(b[8:]), 1), nil // zero is no page either
	}
	if native.Uint32(b)&bucketFlag == 0 {
		return 0, nil
	}
	value := int64(native.Uint32(b[4:])) + int64(native.Uint32(b[8:]))
	if value+8 > int64(len(b)) {
		return 0, corrupt("the bucket is not in the page")
	}
	return native.Uint64(b[value:]), nil // zero for a bucket inside this page
}
