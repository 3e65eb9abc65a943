package boltstore

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// value returns where in the content the value of a page's element starts.
func value(t *testing.T, content []byte, l layout, id uint64, key string) (offset int, v []byte) {
	t.Helper()
	p, err := readPage(bytes.NewReader(content), l, id)
	require.NoError(t, err)
	elements, err := p.elements()
	require.NoError(t, err)
	for _, e := range elements {
		if string(e.key) == key {
			return int(id)*l.pageSize + cap(p.data) - cap(e.value), e.value
		}
	}
	t.Fatalf("page %d has no %q", id, key)
	return 0, nil
}

func TestPageCheck(t *testing.T) {
	s := newSample(t, 60)
	l, err := inspect(bytes.NewReader(s.content), int64(len(s.content)), false)
	require.NoError(t, err)
	_, redo := value(t, s.content, l, l.root, string(rootName))
	header, records := value(t, s.content, l, native.Uint64(redo), string(recordsName))
	top, err := readPage(bytes.NewReader(s.content), l, native.Uint64(records))
	require.NoError(t, err)
	require.Equal(t, uint16(branchPage), top.flags)
	children, err := top.elements()
	require.NoError(t, err)
	require.Greater(t, len(children), 2)
	at := func(id uint64) int { return int(id) * l.pageSize }

	for name, damage := range map[string]func(c []byte){
		"a bucket that starts further down, so that records are cut off": func(c []byte) {
			native.PutUint64(c[header:], children[0].child)
		},
		"a bucket that starts at another's page": func(c []byte) {
			native.PutUint64(c[header:], native.Uint64(redo))
		},
		"a bucket that starts at a meta page": func(c []byte) { native.PutUint64(c[header:], 1) },
		"a branch that has lost its last child": func(c []byte) {
			native.PutUint16(c[at(top.id)+10:], uint16(top.count-1))
		},
		"a branch with the same child twice": func(c []byte) {
			native.PutUint64(c[at(top.id)+pageHeader+8:], children[1].child)
		},
		"a branch that is its own child": func(c []byte) {
			native.PutUint64(c[at(top.id)+pageHeader+8:], top.id)
		},
		"a leaf that has lost its last record": func(c []byte) {
			n := native.Uint16(c[at(children[1].child)+10:])
			native.PutUint16(c[at(children[1].child)+10:], n-1)
		},
		"a leaf with another's number": func(c []byte) {
			native.PutUint64(c[at(children[1].child):], children[2].child)
		},
		"a page that overflows the file": func(c []byte) {
			native.PutUint32(c[at(children[1].child)+12:], 1<<31)
		},
		"a free list that lacks its last page": func(c []byte) {
			n := native.Uint16(c[at(l.freelist)+10:])
			native.PutUint16(c[at(l.freelist)+10:], n-1)
		},
		"a free list that names the free list": func(c []byte) {
			native.PutUint64(c[at(l.freelist)+pageHeader:], l.freelist)
		},
		"a free list longer than its page": func(c []byte) {
			native.PutUint16(c[at(l.freelist)+10:], 0xFFFE)
		},
	} {
		t.Run(name+" is refused", func(t *testing.T) {
			content := bytes.Clone(s.content)
			damage(content)
			require.NotEqual(t, s.content, content)
			refused(t, writeFile(t, content), ErrCorrupt)
		})
	}
}
