package storetest

import (
	"strings"

	"github.com/redo-go/redo/store"
)

var idCases = []Case{{
	Name: "scopes are separate",
	Rule: "A key means nothing outside its scope: the same key in two scopes is two records, and no caller can see " +
		"or detect a record of another scope.",
	run: func(t *trial) {
		t.distinct(
			store.ID{Scope: "a", Key: "k"},
			store.ID{Scope: "b", Key: "k"},
			store.ID{Scope: "", Key: "k"},
			store.ID{Scope: "k", Key: "k"},
		)
	},
}, {
	Name: "parts of an id are not confused",
	Rule: "The boundary between scope and key is part of the ID, for any bytes. Two IDs never share a record because " +
		"their joined parts are equal.",
	run: func(t *trial) {
		ids := []store.ID{{Scope: "a", Key: "bc"}, {Scope: "ab", Key: "c"}, {Scope: "", Key: "abc"}}
		for _, sep := range []string{
			"\x00", "\x01", "/", ":", "|", "\xff", "\\", "{", "}", "%", "\n", " ", "\x00\x00",
		} {
			ids = append(ids,
				store.ID{Scope: "a" + sep, Key: "b"}, store.ID{Scope: "a", Key: sep + "b"},
				store.ID{Scope: "a" + sep + "b", Key: "c"}, store.ID{Scope: "a", Key: "b" + sep + "c"})
		}
		t.distinct(ids...)
	},
}, {
	Name: "keys may hold any bytes",
	Rule: "Keys and scopes are bytes: NUL, 0xff, slashes, invalid UTF-8, upper and lower case and trailing blanks " +
		"all count, and come back unchanged.",
	run: func(t *trial) {
		ids := []store.ID{{Scope: string(everyByte()), Key: string(everyByte())}}
		for _, key := range []string{
			"k", "K", "k ", " k", "k\x00", "\x00k", "\x00", "\x00\x00", "\xff", "\xff\xff",
			"/", "//", ".", "..", "é", "e\u0301", "\xc3", "*", "[k]", "%6b", "k\n",
		} {
			ids = append(ids, store.ID{Scope: "scope", Key: key}, store.ID{Scope: key, Key: "k of " + key})
		}
		t.distinct(ids...)
	},
}, {
	Name: "longest id is accepted whole",
	Rule: "Keys and scopes up to their limits are distinguished to the last byte.",
	run: func(t *trial) {
		key, scope := strings.Repeat("k", store.MaxKey), strings.Repeat("s", store.MaxScope)
		t.distinct(
			store.ID{Scope: scope, Key: key},
			store.ID{Scope: scope, Key: key[1:] + "x"},
			store.ID{Scope: scope[1:] + "x", Key: key},
			store.ID{Scope: scope, Key: key[1:]},
		)
	},
}}

// distinct gives each ID a separate record and settles it with a different result.
func (t *trial) distinct(ids ...store.ID) {
	t.Helper()
	st := t.open()
	leases := make([]store.Lease, len(ids))
	for i, id := range ids {
		c := leased("k")
		c.ID = id
		g := t.reserve(st, c, store.Acquired)
		if g.Lease.ID != id || g.Record.ID != id {
			t.fatalf("the lease is on %v and the record is of %v, want %v", g.Lease.ID, g.Record.ID, id)
		}
		leases[i] = g.Lease
	}
	for i, id := range ids {
		t.state(t.find(st, id), store.StatePending)
		t.ok(st.Complete(t.Context(), leases[i], store.Outcome{Result: []byte(id.String())}), "Complete")
	}
	for _, id := range ids {
		r := t.find(st, id)
		if r.ID != id {
			t.fatalf("Find of %v returned the record of %v", id, r.ID)
		}
		t.bytes(r.Result, []byte(id.String()), "the result")
	}
}
