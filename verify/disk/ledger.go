package disk

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// A Ledger holds what a store owes its callers: the calls of the recorded processes up to a moment.
type Ledger struct {
	now    int
	opened bool // the first Open was acknowledged
	queued bool // the queue was made
	keys   map[string][]step
	Fence  uint64 // the highest one that was given out
	Acks   int
	stop   int             // the moment of the first sync that failed
	found  map[string]bool // the keys that the process at work was shown when it opened the store
}

// transactional is the operation that may overtake lazy outcomes of other IDs.
const transactional = "commit"

// A step is a change of one ID.
type step struct {
	op           string
	begun, acked int // moments; acked is 0 while the call has not returned
	lazy         bool
	after        Fact
}

// Add takes the next event.
func (l *Ledger) Add(e Event) error {
	l.now++
	if l.keys == nil {
		l.keys = map[string][]step{}
	}
	l.Fence = max(l.Fence, e.Found.Fence)
	if e.Stage == Done {
		l.Acks++
	}
	switch {
	case e.Op == "open" && e.Stage == Done:
		l.opened = true
		return nil
	case e.Op == "queue" && e.Stage == Done:
		l.queued = true
		return nil
	case e.Op == "found all":
		return l.sawAll()
	case e.Key == "":
		return nil
	case e.Op == "find":
		return l.saw(e)
	case e.Stage == Begun:
		l.keys[e.Key] = append(l.keys[e.Key], step{op: e.Op, begun: l.now, lazy: e.Lazy, after: e.Found})
		return nil
	}
	steps := l.keys[e.Key]
	if len(steps) == 0 {
		return fmt.Errorf("disk: the process ended a call about %q that it did not begin", e.Key)
	}
	last := &steps[len(steps)-1]
	switch e.Stage {
	case Done:
		if l.stop > 0 && last.begun > l.stop {
			return fmt.Errorf("%w: %s of %q was acknowledged, and began after a sync had failed", ErrLoss, e.Op, e.Key)
		}
		last.acked, last.after = l.now, e.Found
	case Refused:
		l.keys[e.Key] = steps[:len(steps)-1]
	}
	return nil
}

// SyncFailed notes that a sync has failed. No later call may be acknowledged until the store is opened again.
func (l *Ledger) SyncFailed() {
	l.now++
	if l.stop == 0 {
		l.stop = l.now
	}
}

// Reopened notes that another process opens the store.
func (l *Ledger) Reopened() { l.stop, l.found = 0, map[string]bool{} }

// saw notes that a process was shown a record when it opened the store. From then on the record is acknowledged. What
// an earlier process did to it later is gone for good: a lazy change may be lost with its process.
func (l *Ledger) saw(e Event) error {
	steps := l.keys[e.Key]
	for i, s := range slices.Backward(steps) {
		if s.after.fits(e.Found) {
			for j := range steps[:i+1] {
				steps[j].acked = l.now
			}
			steps[i].lazy, steps[i].after = false, e.Found
			l.keys[e.Key], l.found[e.Key] = steps[:i+1], true
			return nil
		}
		if s.acked > 0 && !s.lazy {
			break
		}
	}
	if e.Found == (Fact{}) && !slices.ContainsFunc(steps, func(s step) bool { return s.acked > 0 && !s.lazy }) {
		l.keys[e.Key] = nil
		return nil
	}
	return fmt.Errorf("%w: a process was shown %q as %v, and its calls were %+v", ErrLoss, e.Key, e.Found, steps)
}

// sawAll notes that a process was shown no other record.
func (l *Ledger) sawAll() (err error) {
	for key := range l.keys {
		if !l.found[key] {
			err = errors.Join(err, l.saw(Event{Key: key}))
		}
	}
	return err
}

// ErrLoss is wrapped by each error about a promise that a store broke.
var ErrLoss = errors.New("disk: lost")

// Judge compares the content of a store with what it owes.
func (l *Ledger) Judge(seen map[string]Fact) error {
	var problems []error
	for key := range seen {
		if _, known := l.keys[key]; !known {
			problems = append(problems, fmt.Errorf("%w: there is a record of %q, which no call made", ErrLoss, key))
		}
	}
	visible := 0 // the moment at which the last change on the disk was begun
	type overtaken struct {
		key   string
		acked int
	}
	var missing []overtaken
	for _, key := range slices.Sorted(maps.Keys(l.keys)) {
		steps := l.keys[key]
		at, found := len(steps)-1, false
		for ; at >= 0; at-- {
			if found = steps[at].after.fits(seen[key]); found || steps[at].acked > 0 && !steps[at].lazy {
				break
			}
		}
		if !found && !(at < 0 && seen[key] == (Fact{})) {
			problems = append(problems, fmt.Errorf("%w: %q is %v, and its calls were %v", ErrLoss, key, seen[key], steps))
			continue
		}
		if at >= 0 && steps[at].op != transactional {
			visible = max(visible, steps[at].begun)
		}
		for _, s := range steps[at+1:] {
			if s.acked > 0 {
				missing = append(missing, overtaken{key, s.acked})
			}
		}
	}
	for _, m := range missing {
		if m.acked < visible {
			problems = append(problems, fmt.Errorf("%w: a later change overtook the lazy outcome of %q", ErrLoss, m.key))
		}
	}
	return errors.Join(problems...)
}
