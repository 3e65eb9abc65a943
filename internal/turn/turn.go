// Package turn lets processes that share a store take turns at a task, with a growing wait between two turns.
package turn

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/redo-go/redo/store"
)

// A Pace is the wait between two turns at a task: Interval, then twice that, and so on up to Most, but never less than
// Least. Interval must be positive. If Most is shorter than Interval, the wait is always Interval.
type Pace struct {
	Interval, Least, Most time.Duration
}

// A Turn is a turn that was taken. Its lease excludes other processes until the next turn is due. The record's meta
// counts the turns.
type Turn struct {
	Lease store.Lease
	next  time.Time // when the next turn is due, by this process's clock
}

// Take takes the turn at the task that id names. It returns nil if no turn is due.
func Take(ctx context.Context, st store.Store, id store.ID, p Pace) (*Turn, error) {
	grant, err := st.Reserve(ctx,
		store.Claim{ID: id, Lease: p.Interval, Retention: 2 * (p.Most + p.Interval), Meta: []byte{0}})
	if err != nil || !grant.Verdict.Owned() {
		return nil, err
	}
	taken, _ := binary.Uvarint(grant.Record.Meta)
	wait := p.wait(taken)
	next := time.Now().Add(wait)
	err = st.Extend(ctx, grant.Lease, wait, binary.AppendUvarint(nil, taken+1))
	switch {
	case errors.Is(err, store.ErrLost):
		return nil, nil //nolint:nilnil // no turn and no error: another process has it
	case err != nil:
		return nil, err
	}
	return &Turn{grant.Lease, next}, nil
}

// Patience is how long a process waits for the store to take a turn, and to end one. A store that never responds would
// end all turns.
const Patience = 5 * time.Second

// Postpone makes the next turn due at the time until, unless it is due later anyway, or that time has passed. It does
// so even after ctx has ended.
func (t Turn) Postpone(ctx context.Context, st store.Store, until time.Time) error {
	left := time.Until(until)
	if left <= 0 || !until.After(t.next) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Patience)
	defer cancel()
	return st.Extend(ctx, t.Lease, left, nil)
}

// Forget ends the turns at a task that is done. If the write is lost, they are forgotten when they expire.
func (t Turn) Forget(ctx context.Context, st store.Store) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Patience)
	defer cancel()
	_ = st.Release(ctx, t.Lease)
}

// wait returns the wait after a turn. taken counts the turns before it.
func (p Pace) wait(taken uint64) time.Duration {
	wait := p.Interval
	for range min(taken, 16) {
		wait = min(2*wait, max(p.Most, p.Interval))
	}
	return max(wait, p.Least)
}
