package boltstore

import (
	"bytes"
	"io"
	"slices"
)

// Kinds of pages, in the header's flags.
const (
	branchPage   = 0x01
	leafPage     = 0x02
	freelistPage = 0x10
)

// bucketEntry flags a leaf element whose value is a bucket.
const bucketEntry = 0x01

// elementSize is that of branch and leaf elements. Leaf: flags 4, offset 4, key's length 4, value's length 4.
// Branch: offset 4, key's length 4, child page 8. Offsets count from the element.
const elementSize = 16

// A page is one page, its overflow pages included, as it was read.
type page struct {
	id       uint64
	flags    uint16
	count    int
	overflow uint64
	data     []byte
}

// readPage reads a page and checks its header.
func readPage(r io.ReaderAt, l layout, id uint64) (page, error) {
	if id < 2 || id >= l.pages {
		return page{}, corrupt("it refers to page %d of %d", id, l.pages)
	}
	b := make([]byte, l.pageSize)
	if _, err := r.ReadAt(b, int64(id)*int64(l.pageSize)); err != nil {
		return page{}, err
	}
	p := parsePage(b)
	if p.id != id {
		return page{}, corrupt("page %d says that it is page %d", id, p.id)
	}
	if p.overflow >= l.pages-id {
		return page{}, corrupt("page %d runs over the end of the file", id)
	}
	if p.overflow > 0 {
		p.data = make([]byte, (p.overflow+1)*uint64(l.pageSize))
		if _, err := r.ReadAt(p.data, int64(id)*int64(l.pageSize)); err != nil {
			return page{}, err
		}
	}
	return p, nil
}

func parsePage(b []byte) page {
	return page{
		id:       native.Uint64(b),
		flags:    native.Uint16(b[8:]),
		count:    int(native.Uint16(b[10:])),
		overflow: uint64(native.Uint32(b[12:])),
		data:     b,
	}
}

// checkPages walks the whole tree: every page has the form that bbolt gives it, its keys are in order, and
// each page is either used once or free. One that is neither was cut off by damage above it, records and all.
// It reads the file without mapping it and relies on nothing in it.
func checkPages(r io.ReaderAt, l layout) error {
	c := checker{r: r, l: l, used: make([]bool, l.pages)}
	c.used[0], c.used[1] = true, true // the meta pages
	p, err := readPage(r, l, l.freelist)
	if err != nil {
		return err
	}
	if err := c.use(p); err != nil {
		return err
	}
	free, err := freePages(r, l)
	if err != nil {
		return err
	}
	for _, id := range free {
		if c.used[id] {
			return corrupt("page %d is used and free", id)
		}
		c.used[id] = true
	}
	if err := c.walk(l.root, nil, nil); err != nil {
		return err
	}
	if i := slices.Index(c.used, false); i >= 0 {
		return corrupt("page %d is neither used nor free", i)
	}
	return nil
}

type checker struct {
	r    io.ReaderAt
	l    layout
	used []bool
}

// use marks the page and its overflow pages. That no page is used twice also ends any walk.
func (c *checker) use(p page) error {
	for id := p.id; id <= p.id+p.overflow; id++ {
		if c.used[id] {
			return corrupt("page %d is used twice, or used and free", id)
		}
		c.used[id] = true
	}
	return nil
}

// walk checks the subtree below a page, whose keys are at least lo and less than hi; nil does not bound.
func (c *checker) walk(id uint64, lo, hi []byte) error {
	p, err := readPage(c.r, c.l, id)
	if err != nil {
		return err
	}
	if err := c.use(p); err != nil {
		return err
	}
	return c.check(p, lo, hi)
}

func (c *checker) check(p page, lo, hi []byte) error {
	elements, err := p.elements()
	if err != nil {
		return err
	}
	for i, e := range elements {
		outside := lo != nil && bytes.Compare(e.key, lo) < 0 || hi != nil && bytes.Compare(e.key, hi) >= 0
		if outside || i > 0 && bytes.Compare(elements[i-1].key, e.key) >= 0 {
			return corrupt("the keys of page %d are out of order", p.id)
		}
	}
	for i, e := range elements {
		switch {
		case p.flags == branchPage:
			end := hi
			if i+1 < len(elements) {
				end = elements[i+1].key
			}
			err = c.walk(e.child, e.key, end)
		case e.bucket:
			err = c.bucket(p.id, e.value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// bucket checks a nested bucket: root page 8, sequence 8, and when the root is zero the page itself.
func (c *checker) bucket(in uint64, v []byte) error {
	const header = 16
	if len(v) < header {
		return corrupt("page %d has a bucket of %d bytes", in, len(v))
	}
	if root := native.Uint64(v); root != 0 {
		if len(v) != header {
			return corrupt("page %d has a bucket of %d bytes", in, len(v))
		}
		return c.walk(root, nil, nil)
	}
	if len(v) < header+pageHeader {
		return corrupt("page %d has a bucket of %d bytes", in, len(v))
	}
	p := parsePage(v[header:])
	if p.id != 0 || p.flags != leafPage || p.overflow != 0 {
		return corrupt("page %d has a malformed bucket", in)
	}
	return c.check(p, nil, nil)
}

type element struct {
	key, value []byte
	child      uint64
	bucket     bool
}

// elements reads a branch or leaf page. bbolt puts the keys and values right behind the elements, without a
// gap, so a damaged count or offset shows.
func (p page) elements() ([]element, error) {
	if p.flags != leafPage && (p.flags != branchPage || p.count == 0) {
		return nil, corrupt("page %d has flags %#x and %d elements where a branch or leaf was expected", p.id, p.flags, p.count)
	}
	elements := make([]element, p.count)
	off := uint64(pageHeader + p.count*elementSize)
	if off > uint64(len(p.data)) {
		return nil, corrupt("page %d has no room for %d elements", p.id, p.count)
	}
	for i := range elements {
		at := uint64(pageHeader + i*elementSize)
		h := p.data[at:]
		var e element
		var pos, keyLen, valueLen uint64
		if p.flags == leafPage {
			flags := native.Uint32(h)
			if flags&^bucketEntry != 0 {
				return nil, corrupt("page %d has an element with flags %#x", p.id, flags)
			}
			e.bucket = flags == bucketEntry
			pos, keyLen, valueLen = uint64(native.Uint32(h[4:])), uint64(native.Uint32(h[8:])), uint64(native.Uint32(h[12:]))
		} else {
			pos, keyLen, e.child = uint64(native.Uint32(h)), uint64(native.Uint32(h[4:])), native.Uint64(h[8:])
		}
		if at+pos != off || keyLen == 0 || keyLen+valueLen > uint64(len(p.data))-off {
			return nil, corrupt("page %d has a malformed element", p.id)
		}
		e.key = p.data[off : off+keyLen]
		e.value = p.data[off+keyLen : off+keyLen+valueLen]
		off += keyLen + valueLen
		elements[i] = e
	}
	return elements, nil
}
