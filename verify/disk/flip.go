package disk

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
)

// A Flip is a bit of a file that is turned over.
type Flip struct {
	Kind string // of the page
	At   int    // byte of the file
	Bit  int
}

// flipped is the number of bytes at the start of a page that half of the flips hit: its header and its elements.
const flipped = 256

// Flips returns n flips in the file, in turn for each kind of page that it has.
func Flips(path string, n int, r *rand.Rand) (flips []Flip, err error) {
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		return nil, fmt.Errorf("disk: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	pages := map[string][]int{}
	size := db.Info().PageSize
	err = db.View(func(tx *bbolt.Tx) error {
		for id := 0; id < int(tx.Size())/size; id++ {
			p, err := tx.Page(id)
			if err != nil {
				return err
			}
			pages[p.Type] = append(pages[p.Type], id)
			if p.Type == "free" {
				continue // its header is of an earlier use
			}
			for range p.OverflowCount {
				id++
				pages["overflow"] = append(pages["overflow"], id)
			}
		}
		return nil
	})
	kinds := []string{"meta", "freelist", "branch", "leaf", "overflow", "free"}
	kinds = slices.DeleteFunc(kinds, func(kind string) bool { return len(pages[kind]) == 0 })
	for i := range n {
		f := Flip{Kind: kinds[i%len(kinds)], Bit: r.IntN(8)}
		reach := size
		if r.IntN(2) == 0 {
			reach = flipped
		}
		f.At = pages[f.Kind][r.IntN(len(pages[f.Kind]))]*size + r.IntN(reach)
		flips = append(flips, f)
	}
	return flips, err
}

// A Reaction is the reaction of a store to a Flip.
type Reaction string

// The reactions that lose nothing.
const (
	RefusedToOpen Reaction = "refused to open"
	RefusedInUse  Reaction = "refused in use"  // a call returned an error
	FoundByVerify Reaction = "found by Verify" // and each call was right
	Unharmed      Reaction = "unharmed"
)

// OpenFlipped opens the content with the flip, and uses the store. It returns an error that wraps ErrLoss if a record
// is lost or changed without an error of the call.
func (l *Ledger) OpenFlipped(ctx context.Context, content []byte, f Flip, path string) (Reaction, error) {
	content[f.At] ^= 1 << f.Bit
	defer func() { content[f.At] ^= 1 << f.Bit }()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return "", err
	}
	st, err := open(path)
	switch {
	case errors.Is(err, boltstore.ErrCorrupt), errors.Is(err, boltstore.ErrFormat):
		return RefusedToOpen, nil
	case err != nil:
		return "", err
	}
	reaction := Unharmed
	err = errors.Join(l.records(ctx, st, &reaction), l.pending(ctx, st, &reaction))
	if err != nil {
		return "", errors.Join(err, st.Close())
	}
	if err := st.Verify(ctx); err != nil && reaction == Unharmed {
		reaction = FoundByVerify
	}
	g, err := st.Reserve(ctx, claimOf("after the flip"))
	switch {
	case errors.Is(err, store.ErrUnavailable):
		reaction = RefusedInUse
	case err != nil:
		return "", errors.Join(err, st.Close())
	case g.Verdict != store.Acquired || g.Lease.Fence <= l.Fence:
		return "", fmt.Errorf("%w: a new claim is %v under fence %d", ErrLoss, g.Verdict, g.Lease.Fence)
	}
	err = l.records(ctx, st, &reaction)
	_ = st.Close() // a store whose file is damaged may fail to close
	return reaction, err
}

// records compares each record with what the store owes. A call may also refuse.
func (l *Ledger) records(ctx context.Context, st *boltstore.Store, reaction *Reaction) error {
	seen := map[string]Fact{}
	for key, steps := range l.keys {
		owed := steps[len(steps)-1].after
		r, err := st.Find(ctx, claimOf(key).ID)
		switch {
		case errors.Is(err, store.ErrNotFound):
			continue
		case errors.Is(err, store.ErrUnavailable):
			*reaction, seen[key] = RefusedInUse, owed
			continue
		case err != nil:
			return fmt.Errorf("finding %q: %w", key, err)
		}
		f := factOf(r)
		f.Effect = owed.Effect
		seen[key] = f
	}
	return l.Judge(seen)
}

// pending compares the list of pending records with what the store owes.
func (l *Ledger) pending(ctx context.Context, st *boltstore.Store, reaction *Reaction) error {
	listed := map[string]bool{}
	for r, err := range st.Pending(ctx, "") {
		if err != nil {
			*reaction = RefusedInUse
			return nil
		}
		listed[r.ID.Key] = true
	}
	for key, steps := range l.keys {
		if owed := steps[len(steps)-1].after.State == store.StatePending; owed != listed[key] {
			return fmt.Errorf("%w: %q is listed as pending: %t", ErrLoss, key, listed[key])
		}
	}
	return nil
}
