package disk

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
)

// A Replay opens the states after each power cut of a recording.
type Replay struct {
	Path    string // of the file in the recording
	Scratch string // where states are written
	Rand    *rand.Rand
	Samples int                   // random states of each kind at each cut
	Dropped int                   // the sync that is taken for lost, from 1; no earlier power cut is made. 0: none
	Most    int                   // ends the replay after so many states; 0: no limit
	Lost    func(err error) error // gets each loss; an error ends the replay
}

// writeEvery is the number of states of which one is written to.
const writeEvery = 4

// A Count counts what a Replay met.
type Count struct {
	Writes, Syncs, Acks, States, Losses int
	Needed                              []int // the syncs that promises rest on, from 1
}

// Add adds another count.
func (c *Count) Add(o Count) {
	c.Writes += o.Writes
	c.Syncs += o.Syncs
	c.Acks += o.Acks
	c.States += o.States
	c.Losses += o.Losses
}

// Run replays the recordings of processes that used the file one after the other. It cuts the power before each sync
// has an effect and at the end. The states before a sync include all those since the sync before.
func (p Replay) Run(ctx context.Context, sessions ...[]Call) (n Count, err error) {
	var d Disk
	var l Ledger
	for i, calls := range sessions {
		l.Reopened()
		for _, c := range calls {
			switch {
			case c.Kind == Ack:
				e, err := parseEvent(c.Data)
				if err == nil {
					err = l.Add(e)
				}
				if errors.Is(err, ErrLoss) {
					n.Losses++
					err = p.Lost(fmt.Errorf("session %d: %w", i+1, err))
				}
				if err != nil {
					return n, err
				}
				continue
			case c.Path != p.Path && c.Kind != SyncDir:
				return n, fmt.Errorf("disk: a %v of the file %q is not known here", c.Kind, c.Path)
			case c.Kind == Sync, c.Kind == SyncDir:
				n.Syncs++
				if err := p.cut(ctx, &d, &l, &n, n.Syncs); err != nil {
					return n, err
				}
				if l.opened && !d.idle(c) {
					n.Needed = append(n.Needed, n.Syncs)
				}
				if p.Dropped == n.Syncs {
					continue
				}
				if c.Failed {
					l.SyncFailed()
				}
			case c.Kind == Write:
				n.Writes++
			}
			if err := d.Apply(c); err != nil {
				return n, err
			}
		}
	}
	n.Acks = l.Acks
	return n, p.cut(ctx, &d, &l, &n, n.Syncs+1)
}

// cut opens the states that the disk may have before the sync.
func (p Replay) cut(ctx context.Context, d *Disk, l *Ledger, n *Count, sync int) error {
	if sync <= p.Dropped {
		return nil
	}
	for s := range d.States(p.Rand, p.Samples) {
		if p.Most > 0 && n.States == p.Most {
			return nil
		}
		n.States++
		err := l.OpenState(ctx, s, p.Scratch, n.States%writeEvery == 0)
		if err == nil {
			continue
		}
		n.Losses++
		err = p.Lost(fmt.Errorf("before sync %d, %s of %d pending writes: %w", sync, s.How, len(d.pending), err))
		if err != nil {
			return err
		}
	}
	return nil
}
