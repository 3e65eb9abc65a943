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
	metaPages   = 2  // the first ones of a file
	pageHeader  = 16 // bytes of a header
	elementSize = 16 // of a branch: position, size of the key, page; of a leaf: flags, position, sizes of key and value
	metaSum     = 56 // where the checksum of a meta page is, after the header
	bucketFlag  = 1  // of a leaf's element
	noFreelist  = 1<<64 - 1

	branchPage   = 1 // a page's flags
	leafPage     = 2
	metaPage     = 4
	freelistPage = 16
)

var native = binary.NativeEndian

// A header begins each page.
type header struct {
	id       uint64
	flags    uint16
	count    uint16 // of the elements
	overflow uint32 // pages that belong to this one
}

func readHeader(page []byte) header {
	return header{native.Uint64(page), native.Uint16(page[8:]), native.Uint16(page[10:]), native.Uint32(page[12:])}
}

// A meta follows the header of a meta page.
type meta struct {
	Magic, Version, PageSize, _     uint32
	Root, _, Freelist, Pages, Tx, _ uint64 // the last one is the checksum
}

// sumOf returns the checksum of the content of a meta page.
func sumOf(content []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(content[:metaSum])
	return h.Sum64()
}

// readMeta reads a meta page. bbolt needs one of them, and uses the older one if the newer one is damaged. That would
// lose the last commit. No power cut explains a damaged one, because its data lie within one sector.
func readMeta(file io.ReaderAt, size, i int) (m meta, err error) {
	page := make([]byte, pageHeader+metaSum+8)
	if _, err := file.ReadAt(page, int64(i*size)); err != nil {
		return m, corrupt("reading meta page %d: %w", i, err)
	}
	content := page[pageHeader:]
	if sumOf(content) != native.Uint64(content[metaSum:]) {
		return m, corrupt("meta page %d does not match its checksum, so the last commit may be lost", i)
	}
	_, err = binary.Decode(content, native, &m)
	return m, err
}

// A tree reads the pages that are in use directly from the file, before bbolt follows their numbers.
type tree struct {
	file io.ReaderAt
	size int    // of a page
	end  uint64 // the number of pages in use
	seen []bool // the pages that were read
	page []byte // the last one
}

// checkTree reads all pages from the root, and the list of free pages. It returns an error if a page is referred to
// twice, or if an element is not inside its page. A page that refers to itself would end the process, and so would a
// read outside the file in the goroutine of bbolt's check. The transaction's meta page is the one of its number.
func checkTree(file io.ReaderAt, size int, tx int) error {
	m, err := readMeta(file, size, tx%metaPages)
	if err != nil {
		return err
	}
	t := tree{file: file, size: size, end: m.Pages}
	if t.end > 1<<48/uint64(size) {
		return corrupt("%d pages are in use", t.end)
	}
	t.seen = make([]bool, t.end)
	if m.Freelist != noFreelist {
		if _, _, err := t.open(m.Freelist, freelistPage, freelistPage); err != nil {
			return err
		}
	}
	return t.walk(m.Root)
}

// walk reads a page and those below it.
func (t *tree) walk(id uint64) error {
	page, h, err := t.open(id, branchPage, leafPage)
	if err != nil {
		return err
	}
	children, err := elements(page, h)
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

// open reads a page, which has one of the flags, with those that belong to it.
func (t *tree) open(id uint64, flags, orFlags uint16) (page []byte, h header, err error) {
	if id < metaPages || id >= t.end {
		return nil, h, corrupt("there is a reference to page %d, and pages %d to %d are in use", id, metaPages, t.end-1)
	}
	if t.seen[id] {
		return nil, h, corrupt("there are two references to page %d", id)
	}
	t.seen[id] = true
	if page, err = t.read(id, 1); err != nil {
		return nil, h, err
	}
	h = readHeader(page)
	switch {
	case h.id != id || h.flags != flags && h.flags != orFlags:
		return nil, h, corrupt("page %d has the number %d and the flags %#x", id, h.id, h.flags)
	case uint64(h.overflow) >= t.end-id:
		return nil, h, corrupt("page %d runs over the end of the file", id)
	case h.overflow > 0:
		page, err = t.read(id, int(h.overflow)+1)
	}
	return page, h, err
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
func elements(page []byte, h header) (children []uint64, err error) {
	count := int(h.count)
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
		if h.flags == leafPage {
			start = at + int64(native.Uint32(e[4:]))
			value = start + int64(native.Uint32(e[8:]))
			end = value + int64(native.Uint32(e[12:]))
		}
		if start != next || end > int64(len(page)) {
			return nil, corrupt("element %d is at byte %d to %d, it must start at %d", i, start, end, next)
		}
		next = end
		switch {
		case h.flags == branchPage:
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
	const lead = 16 // page, sequence
	if len(value) < lead {
		return 0, corrupt("a bucket has %d bytes", len(value))
	}
	if child := native.Uint64(value); child != 0 {
		return child, nil
	}
	if value = value[lead:]; len(value) < pageHeader {
		return 0, corrupt("a bucket inside a page has %d bytes", len(value))
	}
	h := readHeader(value)
	if h.flags != leafPage {
		return 0, corrupt("a bucket inside a page has the flags %#x", h.flags)
	}
	children, err := elements(value, h)
	if err == nil && len(children) > 0 {
		err = corrupt("a bucket inside a page has buckets")
	}
	return 0, err
}
