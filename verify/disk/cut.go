package disk

import (
	"hash/maphash"
	"iter"
	"math/rand/v2"
)

// exhausted is the number of pending writes up to which States yields each subset of them.
const exhausted = 5

// A State is the content of the disk after a power cut. The file does not exist if Absent is set.
type State struct {
	Absent  bool
	Content []byte
	How     string // how it came about
}

// States yields states that the disk may have after a power cut now, each once. It yields none and all of the pending
// writes, with every possible length. Then it yields each prefix of them, also with its last write torn at each sector,
// and each write alone and missing. If there are few writes, it yields each subset. The last ones are samples random
// subsets of writes, and as many of sectors.
func (d *Disk) States(r *rand.Rand, samples int) iter.Seq[State] {
	return func(yield func(State) bool) {
		if d.exists && !d.named && !yield(State{Absent: true, How: "the name is lost"}) {
			return
		}
		seed, seen := maphash.MakeSeed(), map[uint64]bool{}
		sizes := d.sizes()
		for choice := range d.choices(r, samples) {
			some := []int64{sizes[r.IntN(len(sizes))]}
			if choice.everySize {
				some = sizes
			}
			for _, size := range some {
				content := d.image(size, choice.keep)
				sum := maphash.Bytes(seed, content)
				if seen[sum] {
					continue
				}
				seen[sum] = true
				if !yield(State{Content: content, How: choice.how}) {
					return
				}
			}
		}
	}
}

// A choice decides which sectors of the pending writes are on the disk.
type choice struct {
	how       string
	everySize bool
	keep      func(i, sector int) bool
}

func (d *Disk) choices(r *rand.Rand, samples int) iter.Seq[choice] {
	n := len(d.pending)
	whole := func(keep func(i int) bool) func(i, _ int) bool { return func(i, _ int) bool { return keep(i) } }
	return func(yield func(choice) bool) {
		fixed := []choice{
			{"no pending write", true, whole(func(int) bool { return false })},
			{"all pending writes", true, whole(func(int) bool { return true })},
		}
		for last, c := range d.pending {
			fixed = append(fixed,
				choice{"a prefix", false, whole(func(i int) bool { return i <= last })},
				choice{"one write alone", false, whole(func(i int) bool { return i == last })},
				choice{"one write missing", false, whole(func(i int) bool { return i != last })})
			for cut := 1; cut < c.sectors(); cut++ {
				if cut > 8 && cut%8 != 0 { // a large write is torn at its pages
					continue
				}
				fixed = append(fixed,
					choice{"a torn write ends a prefix", false, func(i, s int) bool { return i < last || i == last && s < cut }},
					choice{"a write without its begin", false, func(i, s int) bool { return i < last || i == last && s >= cut }},
					choice{"a torn write among all", false, func(i, s int) bool { return i != last || s < cut }})
			}
		}
		if n <= exhausted {
			for subset := range uint(1) << n {
				fixed = append(fixed, choice{"a subset", false, whole(func(i int) bool { return subset>>i&1 == 1 })})
			}
		}
		for _, c := range fixed {
			if !yield(c) {
				return
			}
		}
		for range samples {
			seed := r.Uint64()
			chance := func(i, s int) bool { return rand.New(rand.NewPCG(seed, uint64(i<<20+s))).IntN(2) == 0 }
			if !yield(choice{"a random subset", false, whole(func(i int) bool { return chance(i, 0) })}) ||
				!yield(choice{"random sectors", false, chance}) {
				return
			}
		}
	}
}
