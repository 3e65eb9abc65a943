package storetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redo-go/redo/store"
)

// Damage sets the function that damages the stored record of an ID. The record exists, and the store must not be
// able to read it afterwards. The function returns the store to use from then on: st, or another one if the
// backend must be opened again. Without this option the cases of damaged records are skipped.
func Damage(damage func(t *testing.T, st store.Store, id store.ID) store.Store) Option {
	return optionFunc(func(c *config) { c.damage = damage })
}

var damageCases = []Case{{
	Name: "damaged record hides no other in the list",
	Rule: "An operator who resumes the work of a crashed process sees each record that can be read, and the ID of " +
		"each that can't.",
	run: func(t *trial) {
		st := t.damageable()
		t.lister(st)
		for _, key := range []string{"m", "damaged", "a", "damaged too", "z"} {
			id := t.reserve(st, unleased(key), store.Acquired).Lease.ID
			t.aged(st, id, 2*precision)
		}
		other := unleased("damaged")
		other.ID.Scope = "another scope"
		t.reserve(st, other, store.Acquired)
		for _, id := range []store.ID{unleased("damaged").ID, unleased("damaged too").ID, other.ID} {
			st = t.damage(st, id)
		}
		sound := []string{"m", "a", "z"}
		t.listedBeside(st, "scope", sound, unleased("damaged").ID, unleased("damaged too").ID)
		t.listedBeside(st, "another scope", nil, other.ID)
		t.listedBeside(st, "", sound, unleased("damaged").ID, unleased("damaged too").ID, other.ID)
	},
}, {
	Name: "list may be left at a damaged record",
	Rule: "A loop that breaks at the damaged record gets nothing more, and leaves nothing locked.",
	run: func(t *trial) {
		st := t.damageable()
		t.lister(st)
		for _, key := range []string{"a", "damaged", "b"} {
			t.reserve(st, unleased(key), store.Acquired)
		}
		st = t.damage(st, unleased("damaged").ID)
		for _, err := range t.lister(st).Pending(t.Context(), "scope") {
			if err != nil {
				break
			}
		}
		t.reserve(st, unleased("a"), store.TakenOver)
		t.listedBeside(st, "scope", []string{"a", "b"}, unleased("damaged").ID)
	},
}, {
	Name: "damaged record is never absent",
	Rule: "The work of a damaged record may have been done. A claim that acquired its ID would do the work again.",
	run: func(t *trial) {
		st := t.damageable()
		t.reserve(st, unleased("pending"), store.Acquired)
		t.settle(st, leased("settled"), store.Outcome{Result: []byte("result")})
		good := t.reserve(st, leased("good"), store.Acquired)
		st = t.damage(st, unleased("pending").ID)
		st = t.damage(st, leased("settled").ID)
		for _, c := range []store.Claim{unleased("pending"), leased("settled")} {
			for range 2 {
				_, err := st.Find(t.Context(), c.ID)
				t.isDamaged(err, c.ID, "Find")
				g, err := st.Reserve(t.Context(), c)
				t.isDamaged(err, c.ID, "Reserve")
				if g.Verdict != 0 {
					t.fatalf("Reserve of the damaged record: verdict %q beside the error %v", g.Verdict, err)
				}
			}
		}
		t.state(t.find(st, good.Lease.ID), store.StatePending)
	},
}, {
	Name: "damaged record can be dropped",
	Rule: "Drop frees the ID of a damaged record: the record leaves the list, the next claim acquires the ID, and no " +
		"earlier lease fits the new record.",
	run: func(t *trial) {
		st := t.damageable()
		t.dropper(st)
		l := t.reserve(st, leased("pending"), store.Acquired).Lease
		settled := t.settle(st, leased("settled"), store.Outcome{})
		t.reserve(st, unleased("good"), store.Acquired)
		st = t.damage(st, l.ID)
		st = t.damage(st, settled.ID)
		for _, old := range []store.Lease{l, settled} {
			t.ok(t.dropper(st).Drop(t.Context(), old.ID), "Drop")
		}
		for _, old := range []store.Lease{l, settled} {
			t.absent(st, old.ID)
			t.is(t.dropper(st).Drop(t.Context(), old.ID), store.ErrNotFound, "the second Drop")
		}
		t.listedBeside(st, "scope", []string{"good"})
		for _, old := range []store.Lease{l, settled} {
			g := t.reserve(st, leased(old.ID.Key), store.Acquired)
			if g.Lease.Fence <= old.Fence {
				t.fatalf("the fence went from %d to %d", old.Fence, g.Lease.Fence)
			}
			t.is(st.Complete(t.Context(), old, store.Outcome{}), store.ErrLost, "Complete under the lease from before")
			t.unchanged(st, g.Record)
		}
		if t.reopen != nil {
			st = t.reopen(st)
			t.listed(st, "scope", "good", "pending", "settled")
		}
	},
}, {
	Name: "only a damaged record is dropped",
	Rule: "Drop takes no fence, so it must not remove a record that can be read. Release and Forget take the lease " +
		"that the operator has read.",
	run: func(t *trial) {
		st := t.open()
		d := t.dropper(st)
		pending := t.reserve(st, leased("pending"), store.Acquired).Record
		t.reserve(st, unleased("unleased"), store.Acquired)
		unleased := t.find(st, unleased("unleased").ID)
		settled := t.find(st, t.settle(st, leased("settled"), store.Outcome{Result: []byte("result")}).ID)
		for _, r := range []store.Record{pending, unleased, settled} {
			t.is(d.Drop(t.Context(), r.ID), store.ErrInvalid, "Drop of a record that can be read")
			t.unchanged(st, r)
		}
		t.is(d.Drop(t.Context(), leased("absent").ID), store.ErrNotFound, "Drop of an absent record")
		t.is(d.Drop(t.Context(), store.ID{Scope: "scope"}), store.ErrInvalid, "Drop of an invalid ID")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		t.is(d.Drop(ctx, leased("absent").ID), context.Canceled, "Drop under an ended context")
	},
}, {
	Name: "concurrent drops remove one damaged record",
	Rule: "The check and the removal are one step: of many drops one succeeds, and none removes the record that a " +
		"claim has made after it.",
	run: func(t *trial) {
		st := t.damageable()
		t.dropper(st)
		id := t.reserve(st, leased("k"), store.Acquired).Lease.ID
		st = t.damage(st, id)
		d := t.dropper(st)
		var dropped, acquired atomic.Int32
		errs := make([]error, racers)
		race(func(i int) {
			switch err := d.Drop(t.Context(), id); {
			case err == nil:
				dropped.Add(1)
			case !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrInvalid):
				errs[i] = err
				return
			}
			// After any of these the ID is free or taken anew.
			g, err := st.Reserve(t.Context(), leased("k"))
			errs[i] = err
			if g.Verdict == store.Acquired {
				acquired.Add(1)
			}
		})
		t.ok(errors.Join(errs...), "Drop and Reserve")
		if dropped.Load() != 1 || acquired.Load() != 1 {
			t.fatalf("%d drops and %d claims succeeded, want one of each", dropped.Load(), acquired.Load())
		}
		t.listed(st, "scope", "k")
	},
}}

func (t *trial) damageable() store.Store {
	t.Helper()
	if t.damage == nil {
		t.Skipf("the suite was run without Damage")
	}
	return t.open()
}

func (t *trial) dropper(st store.Store) store.Dropper {
	t.Helper()
	d, ok := st.(store.Dropper)
	if !ok {
		t.Skipf("the store is no Dropper")
	}
	return d
}

// damaged checks the error of a call about a damaged record.
func (t *trial) isDamaged(err error, id store.ID, call string) {
	t.Helper()
	t.is(err, store.ErrDamaged, call)
	t.is(err, store.ErrUnavailable, call)
	if errors.Is(err, store.ErrNotFound) {
		t.fatalf("%s: the damaged record of %v is reported as absent: %v", call, id, err)
	}
	if !strings.Contains(err.Error(), id.String()) {
		t.fatalf("%s: the error does not name %v: %v", call, id, err)
	}
}

// listedBeside checks the keys of a list, in order, and the damaged records in it, in any order.
func (t *trial) listedBeside(st store.Store, scope string, want []string, damaged ...store.ID) {
	t.Helper()
	var keys []string
	var found []store.ID
	for r, err := range t.lister(st).Pending(t.Context(), scope) {
		if err == nil {
			t.state(r, store.StatePending)
			keys = append(keys, r.ID.Key)
			continue
		}
		t.isDamaged(err, r.ID, "Pending")
		if r.State != 0 || r.Fence != 0 || r.Meta != nil || r.Result != nil {
			t.fatalf("the error comes with more than the ID: %+v", r)
		}
		found = append(found, r.ID)
	}
	if !slices.Equal(keys, want) {
		t.fatalf("listed are %q, want %q", keys, want)
	}
	slices.SortFunc(found, byText)
	if slices.SortFunc(damaged, byText); !slices.Equal(found, damaged) {
		t.fatalf("listed as damaged are %v, want %v", found, damaged)
	}
}

func byText(a, b store.ID) int { return strings.Compare(a.String(), b.String()) }
