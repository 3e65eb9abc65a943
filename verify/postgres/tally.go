package main

import (
	"context"
	"fmt"
)

// A tally is the result of a campaign.
type tally struct {
	kills      int
	operations int // that succeeded
	effects    int // rows of the ledger
	takenOver  int // runs after another process had died with the key
	duplicates int // effects beyond the first of their operation
	lost       int // operations that succeeded, and have no effect
	unasked    int // duplicates of keys that were never taken over
}

func (c *campaign) count(ctx context.Context) (tally, error) {
	effects, err := c.database.counts(ctx, c.schema, "ledger")
	if err != nil {
		return tally{}, err
	}
	taken, err := c.database.counts(ctx, c.schema, "taken_over")
	if err != nil {
		return tally{}, err
	}
	return counted(c.kills, c.answered, effects, taken), nil
}

func counted(kills int, answered map[string]int64, effects, taken map[string]int) tally {
	t := tally{kills: kills, operations: len(answered)}
	for _, n := range taken {
		t.takenOver += n
	}
	for key, n := range effects {
		t.effects += n
		t.duplicates += n - 1
		t.unasked += max(0, n-1-taken[key])
	}
	for key := range answered {
		if effects[key] == 0 {
			t.lost++
		}
	}
	return t
}

// judge returns an error if the mode's promise is broken.
func (t tally) judge(m mode) error {
	switch {
	case t.lost > 0:
		return fmt.Errorf("%d operations succeeded and have no effect", t.lost)
	case t.operations == 0:
		return fmt.Errorf("no operation succeeded, so nothing was shown")
	case t.unasked > 0:
		return fmt.Errorf("%d effects were made again without a take-over", t.unasked)
	case t.duplicates > 0 && !m.mayRepeat:
		return fmt.Errorf("%d effects were made twice", t.duplicates)
	case t.takenOver > 0 && m.name == "transaction":
		return fmt.Errorf("%d keys were taken over, though a transaction leaves nothing behind", t.takenOver)
	}
	return nil
}
