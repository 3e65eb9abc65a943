package memoutbox

import (
	"cmp"
	"container/heap"
	"slices"
	"time"
)

// A line holds the waiting and the dead events of one ordering key and destination, or one event without an ordering
// key.
type line struct {
	to      *destination
	key     lineKey
	waiting []*row // in the order of seq, claimed events included
	dead    []*row // in the order of seq
	claimed []*row
	due     time.Time // of its next claim
	at      int       // in the destination's heap, -1 while it is not there
}

// A lineKey names a line. seq is zero for events with an ordering key.
type lineKey struct {
	destination, key string
	seq              uint64
}

func bySeq(a, b *row) int { return cmp.Compare(a.seq, b.seq) }

func insert(rows []*row, r *row) []*row {
	i, _ := slices.BinarySearchFunc(rows, r, bySeq)
	return slices.Insert(rows, i, r)
}

func remove(rows []*row, r *row) []*row {
	if i := slices.Index(rows, r); i >= 0 {
		return slices.Delete(rows, i, i+1)
	}
	return rows
}

// place puts the line into its destination's heap, by the instant of its next claim.
func (l *line) place() {
	if len(l.waiting) == 0 {
		heap.Remove(&l.to.lines, l.at)
		return
	}
	l.due = l.waiting[0].due
	for _, r := range l.claimed {
		l.due = later(l.due, r.due) // no claim before the lease expires
	}
	if l.at >= 0 {
		heap.Fix(&l.to.lines, l.at)
	} else {
		heap.Push(&l.to.lines, l)
	}
}

// next returns the first n events that may be claimed now, with the instants since which they are due.
func (l *line) next(now time.Time, n int, hold bool) (found []candidate) {
	due := l.due
	for _, r := range l.waiting {
		due = later(due, r.due)
		if len(found) == n || due.After(now) || hold && len(l.dead) > 0 && l.dead[0].seq < r.seq {
			break
		}
		found = append(found, candidate{r, due})
	}
	return found
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// A candidate is an event that can be claimed.
type candidate struct {
	row *row
	due time.Time
}

func oldest(a, b candidate) int {
	return cmp.Or(a.due.Compare(b.due), bySeq(a.row, b.row))
}

// A destination holds the lines with waiting events, the one that is due first at the top.
type destination struct {
	name  string
	lines lineHeap
	known int // all its lines
}

// due returns the first n events that may be claimed now, the oldest first.
func (d *destination) due(now time.Time, n int, hold bool) (found []candidate) {
	var taken []*line
	for len(found) < n && len(d.lines) > 0 && !d.lines[0].due.After(now) {
		l := heap.Pop(&d.lines).(*line)
		taken = append(taken, l)
		found = append(found, l.next(now, n, hold)...)
	}
	for _, l := range taken {
		heap.Push(&d.lines, l)
	}
	slices.SortStableFunc(found, oldest)
	return found[:min(n, len(found))]
}

type lineHeap []*line

func (h lineHeap) Len() int { return len(h) }

func (h lineHeap) Less(i, j int) bool {
	return cmp.Or(h[i].due.Compare(h[j].due), bySeq(h[i].waiting[0], h[j].waiting[0])) < 0
}

func (h lineHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

func (h *lineHeap) Push(x any) {
	l := x.(*line)
	l.at = len(*h)
	*h = append(*h, l)
}

func (h *lineHeap) Pop() any {
	old := *h
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*h, l.at = old[:len(old)-1], -1
	return l
}
