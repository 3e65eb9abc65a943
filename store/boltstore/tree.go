package boltstore

import (
	"bytes"
	"encoding/binary"
	"hash/fnv"
	"io"
	"slices"
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
	page []byte // the last one
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

// checkTree reads all pages from the root. It returns an error if a page is referred to twice, or if an element is not
// inside its page. bbolt would follow a page that refers to itself until the process dies. Its check runs in a
// goroutine where a read outside the file ends the process. The transaction's meta page is the one of its number.
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
	page, err := t.read(id, 1)
	if err != nil {
		return err
	}
	flags, count, overflow := native.Uint16(page[8:]), int(native.Uint16(page[10:])), native.Uint32(page[12:])
	if got := native.Uint64(page); got != id || flags != branchPage && flags != leafPage {
		return corrupt("page %d has the number %d and the flags %#x", id, got, flags)
	}
	if uint64(overflow) >= t.end-id {
		return corrupt("page %d runs over the end of the file", id)
	}
	if overflow > 0 {
		if page, err = t.read(id, int(overflow)+1); err != nil {
			return err
		}
	}
	children, err := elements(page, flags, count)
	if err != nil {
		return corrupt("page %d: %w", id, err)
	}
	for _, child := range children {
		if err := t.walk(child); err != nil {
			return err
		}
	}
	return nil
}

// read returns n pages from id on. They are valid until the next read.
func (t *tree) read(id uint64, n int) ([]byte, error) {
	t.page = slices.Grow(t.page[:0], n*t.size)[:n*t.size]
	if _, err := t.file.ReadAt(t.page, int64(id)*int64(t.size)); err != nil {
		return nil, corrupt("reading page %d: %w", id, err)
	}
	return t.page, nil
}

// elements checks the elements of a page, and returns the pages to which they refer. bbolt writes the keys and values
// one after the other behind the last element. So a page that has lost its count of elements is found too.
func elements(page []byte, flags uint16, count int) (children []uint64, err error) {
	next := int64(pageHeader + count*elementSize)
	if next > int64(len(page)) {
		return nil, corrupt("its %d elements do not fit", count)
	}
	if count == 0 && len(bytes.Trim(page[pageHeader:], "\x00")) > 0 {
		return nil, corrupt("it has no element, and is not empty")
	}
	for i := range count {
		at := int64(pageHeader + i*elementSize)
		e := page[at:]
		start, value := at+int64(native.Uint32(e)), int64(native.Uint32(e[4:]))
		end := start + value
		if flags == leafPage {
			start = at + int64(native.Uint32(e[4:]))
			value = start + int64(native.Uint32(e[8:]))
			end = value + int64(native.Uint32(e[12:]))
		}
		if start != next || end > int64(len(page)) {
			return nil, corrupt("element %d is at byte %d to %d, it must start at %d", i, start, end, next)
		}
		next = end
		switch {
		case flags == branchPage:
			children = append(children, native.Uint64(e[8:]))
			continue
		case native.Uint32(e) > bucketFlag:
			return nil, corrupt("element %d has the flags %#x", i, native.Uint32(e))
		case native.Uint32(e) != bucketFlag:
			continue
		}
		child, err := bucket(page[value:end])
		if err != nil {
			return nil, corrupt("element %d: %w", i, err)
		}
		if child != 0 {
			children = append(children, child)
		}
	}
	return children, nil
}

// bucket returns the page of a bucket. It is zero if the bucket is inside the value, which is then checked.
func bucket(value []byte) (uint64, error) {
	const header = 16 // page, sequence
	if len(value) < header {
		return 0, corrupt("a bucket has %d bytes", len(value))
	}
	if child := native.Uint64(value); child != 0 {
		return child, nil
	}
	if value = value[header:]; len(value) < pageHeader {
		return 0, corrupt("a bucket inside a page has %d bytes", len(value))
	}
	if flags := native.Uint16(value[8:]); flags != leafPage {
		return 0, corrupt("a bucket inside a page has the flags %#x", flags)
	}
	children, err := elements(value, leafPage, int(native.Uint16(value[10:])))
	if err == nil && len(children) > 0 {
		err = corrupt("a bucket inside a page has buckets")
	}
	return 0, err
}
