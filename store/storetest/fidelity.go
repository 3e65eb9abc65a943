package storetest

import (
	"bytes"

	"github.com/redo-go/redo/store"
)

var fidelityCases = []Case{{
	Name: "nil result stays nil",
	Rule: "Nil and empty results are different to their readers.",
	run:  func(t *trial) { t.keepsResult(nil) },
}, {
	Name: "empty result stays empty",
	Rule: "An empty result is a result, not the absence of one.",
	run:  func(t *trial) { t.keepsResult([]byte{}) },
}, {
	Name: "result of any bytes is kept",
	Rule: "The result is opaque: NUL, line ends and bytes that are not UTF-8 come back as they went in.",
	run: func(t *trial) {
		t.keepsResult(everyByte())
		t.keepsResult([]byte{0})
		t.keepsResult([]byte("\xff\xfe\x00\r\n "))
	},
}, {
	Name: "result of 1 MiB is kept",
	Rule: "A result is kept whole or refused, never cut.",
	run:  func(t *trial) { t.keepsResult(bytes.Repeat(everyByte(), 4096)) },
}, {
	Name: "larger result is kept whole or refused",
	Rule: "A store may have a limit above 1 MiB. A result over it is ErrInvalid, and the record stays pending: a result " +
		"that was cut would be replayed as if it were whole.",
	run: func(t *trial) {
		st := t.open()
		l := t.reserve(st, leased("k"), store.Acquired).Lease
		result := bytes.Repeat(everyByte(), 2*4096+1)
		if err := st.Complete(t.Context(), l, store.Outcome{Result: bytes.Clone(result)}); err != nil {
			t.is(err, store.ErrInvalid, "Complete")
			t.ok(st.Complete(t.Context(), l, store.Outcome{}), "Complete without the result")
			return
		}
		t.bytes(t.find(st, l.ID).Result, result, "the result that Find returns")
		t.bytes(t.reserve(st, leased("k"), store.Complete).Record.Result, result, "the result that Reserve returns")
	},
}, {
	Name: "meta comes back as it went in",
	Rule: "The meta is opaque as the result is: nil, empty, any bytes, through Reserve, Extend and Complete.",
	run: func(t *trial) {
		for _, meta := range [][]byte{nil, {}, {0}, everyByte(), bytes.Repeat(everyByte(), store.MaxMeta/256)} {
			st, c := t.open(), leased("k")
			c.Meta = meta
			g := t.reserve(st, c, store.Acquired)
			t.bytes(g.Record.Meta, meta, "the meta that Reserve returns")
			t.bytes(t.find(st, c.ID).Meta, meta, "the meta that Find returns")
			t.ok(st.Complete(t.Context(), g.Lease, store.Outcome{Result: []byte("result")}), "Complete")
			t.bytes(t.find(st, c.ID).Meta, meta, "the meta of the complete record")

			if meta == nil {
				continue
			}
			other := t.reserve(st, leased("extended"), store.Acquired).Lease
			t.ok(st.Extend(t.Context(), other, long, meta), "Extend")
			t.bytes(t.find(st, other.ID).Meta, meta, "the meta that Extend set")
		}
	},
}, {
	Name: "store does not keep the caller's buffers",
	Rule: "Callers reuse buffers: a write to one after a call returned changes no record.",
	run: func(t *trial) {
		st, c := t.open(), leased("k")
		meta, extended, result := []byte("meta"), []byte("more meta"), []byte("result")
		c.Meta = meta
		l := t.reserve(st, c, store.Acquired).Lease
		clear(meta)
		t.bytes(t.find(st, c.ID).Meta, []byte("meta"), "the meta")
		t.ok(st.Extend(t.Context(), l, long, extended), "Extend")
		clear(extended)
		t.bytes(t.find(st, c.ID).Meta, []byte("more meta"), "the meta that Extend set")
		t.ok(st.Complete(t.Context(), l, store.Outcome{Result: result}), "Complete")
		clear(result)
		t.bytes(t.find(st, c.ID).Result, []byte("result"), "the result")
	},
}, {
	Name: "returned record is the caller's own",
	Rule: "A record is a copy: its reader may change it, and no other reader sees that.",
	run: func(t *trial) {
		st, c := t.open(), leased("k")
		meta := bytes.Clone(c.Meta)
		g := t.reserve(st, c, store.Acquired)
		clear(g.Record.Meta)
		clear(t.reserve(st, leased("k"), store.InFlight).Record.Meta)
		t.ok(st.Complete(t.Context(), g.Lease, store.Outcome{Result: []byte("result")}), "Complete")
		for range 2 {
			for _, r := range []store.Record{t.find(st, c.ID), t.reserve(st, leased("k"), store.Complete).Record} {
				t.bytes(r.Meta, meta, "the meta after another reader changed its copy")
				t.bytes(r.Result, []byte("result"), "the result after another reader changed its copy")
				clear(r.Meta)
				clear(r.Result)
			}
		}
	},
}}

func everyByte() []byte {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

func (t *trial) keepsResult(result []byte) {
	t.Helper()
	for _, failed := range []bool{false, true} {
		st := t.open()
		l := t.settle(st, leased("k"), store.Outcome{Failed: failed, Result: bytes.Clone(result)})
		t.bytes(t.find(st, l.ID).Result, result, "the result that Find returns")
		want := store.Complete
		if failed {
			want = store.Failed
		}
		t.bytes(t.reserve(st, leased("k"), want).Record.Result, result, "the result that Reserve returns")
	}
}
