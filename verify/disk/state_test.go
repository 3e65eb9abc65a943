package disk

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func fill(b byte, sectors int) []byte { return bytes.Repeat([]byte{b}, sectors*sector) }

// play applies calls to an empty disk.
func play(t *testing.T, calls ...Call) *Disk {
	t.Helper()
	var d Disk
	for _, c := range calls {
		require.NoError(t, d.Apply(c))
	}
	return &d
}

// starts returns the first byte of each sector of each state; "" is no file.
func starts(d *Disk) map[string]bool {
	found := map[string]bool{}
	for s := range d.States(rand.New(rand.NewPCG(1, 1)), 50) {
		var text []byte
		for i := 0; i < len(s.Content); i += sector {
			text = append(text, max(s.Content[i], '.'))
		}
		found[string(text)] = true
	}
	return found
}

func only(states ...string) map[string]bool {
	m := map[string]bool{}
	for _, s := range states {
		m[s] = true
	}
	return m
}

func TestStatesOfADisk(t *testing.T) {
	create, named, sync := Call{Kind: Create}, Call{Kind: SyncDir}, Call{Kind: Sync}
	write := func(b byte, at, n int) Call {
		return Call{Kind: Write, Offset: int64(at * sector), Data: fill(b, n)}
	}
	for name, c := range map[string]struct {
		calls []Call
		want  map[string]bool
	}{
		"a synced write is there":               {[]Call{create, named, write('a', 0, 1), sync}, only("a")},
		"a name that is not synced may be lost": {[]Call{create, write('a', 0, 1), sync}, only("a", "")},
		"a write that is not synced may be lost, and its length too": {
			[]Call{create, named, write('a', 0, 1), sync, write('b', 1, 1)}, only("a", "a.", "ab"),
		},
		"writes are reordered": {
			[]Call{create, named, write('.', 0, 2), sync, write('a', 0, 1), write('b', 1, 1)}, only("..", "a.", ".b", "ab"),
		},
		"a write is torn": {
			[]Call{create, named, write('.', 0, 2), sync, write('a', 0, 2)}, only("..", "a.", ".a", "aa"),
		},
		"each of two writes of a sector may be the last": {
			[]Call{create, named, write('.', 0, 1), sync, write('a', 0, 1), write('b', 0, 1)}, only(".", "a", "b"),
		},
		"a length may be lost": {
			[]Call{create, named, write('a', 0, 1), sync, {Kind: Truncate, Size: 2 * sector}}, only("a", "a."),
		},
		"a sync that failed is not made good by the next": {
			[]Call{create, named, write('.', 0, 2), sync, write('a', 0, 1), {Kind: Sync, Failed: true}, write('b', 1, 1), sync},
			only(".b", "ab"),
		},
		"but by another write of the sector": {
			[]Call{create, named, write('.', 0, 1), sync, write('a', 0, 1), {Kind: Sync, Failed: true}, write('b', 0, 1), sync},
			only("b"),
		},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, starts(play(t, c.calls...))) })
	}
}

func TestDiskRefusesCallsThatItDoesNotKnow(t *testing.T) {
	var d Disk
	require.NoError(t, d.Apply(Call{Kind: Write, Data: fill('a', 2)}), "the twin: whole sectors")
	require.ErrorContains(t, d.Apply(Call{Kind: Write, Offset: 7, Data: fill('a', 1)}), "whole sectors")
	require.ErrorContains(t, d.Apply(Call{Kind: Truncate, Size: sector}), "truncation")
}
