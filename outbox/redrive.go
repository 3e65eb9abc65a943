package outbox

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/redo-go/redo/internal/null"
	"github.com/redo-go/redo/store"
)

// RedriveOption changes how [RedriveAll] works.
type RedriveOption interface{ applyRedrive(*redrive) }

type redriveOption func(*redrive)

func (f redriveOption) applyRedrive(r *redrive) { f(r) }

type redrive struct {
	dry       bool
	limited   bool // by perSecond
	perSecond float64
}

// DryRun counts the dead letters and changes nothing.
func DryRun() RedriveOption { return redriveOption(func(r *redrive) { r.dry = true }) }

// PerSecond bounds the number of dead letters that are redriven in a second, so that a destination that has just
// recovered is not flooded. The default is no limit. n must be positive and finite, and its interval, 1/n seconds,
// must fit in a time.Duration. RedriveAll refuses any other n with store.ErrInvalid.
func PerSecond(n float64) RedriveOption {
	return redriveOption(func(r *redrive) { r.limited, r.perSecond = true, n })
}

// Redriven is the result of [RedriveAll].
type Redriven struct {
	Matched    int // dead letters that the selection matches
	Redriven   int // of these; in a dry run none
	Vanished   int // of these: another process redrove or dropped them meanwhile
	Unreadable int // unreadable events, matched or not
}

// RedriveAll redrives the selected dead letters under their own ids, in the order of their death. It returns its
// result even with an error, such as the context's. Call it again to continue. A selection of events that are not
// dead is store.ErrInvalid.
//
// It redrives each letter once, also one that dies again meanwhile.
func RedriveAll(ctx context.Context, b Backlog, s Selection, opts ...RedriveOption) (done Redriven, err error) {
	if null.Is(b) {
		return done, fmt.Errorf("outbox: %w: RedriveAll: the backlog is nil", store.ErrInvalid)
	}
	var r redrive
	for _, o := range opts {
		if o == nil {
			return done, errors.New("outbox: RedriveAll: an option is nil")
		}
		o.applyRedrive(&r)
	}
	if s.State != 0 && s.State != StateDead {
		return done, fmt.Errorf("outbox: %w: only dead letters can be redriven", store.ErrInvalid)
	}
	if err := r.validate(); err != nil {
		return done, err
	}
	s.State = StateDead
	start := time.Now()
	seen := map[[2]string]bool{}
	for e, err := range b.Events(ctx, s) {
		switch {
		case err != nil && e.State == 0 && e.Event.ID == "":
			return done, err
		case err != nil:
			done.Unreadable++
			continue
		}
		letter := [2]string{e.Event.ID, e.Event.Destination}
		if seen[letter] {
			continue // it died again
		}
		seen[letter] = true
		if done.Matched++; r.dry {
			continue
		}
		if err := r.wait(ctx, start, done.Redriven); err != nil {
			return done, err
		}
		switch err := b.Redrive(ctx, e.Event.ID, e.Event.Destination); {
		case errors.Is(err, ErrNoLetter):
			done.Vanished++
		case err != nil:
			return done, err
		default:
			done.Redriven++
		}
	}
	return done, ctx.Err()
}

// validate returns an error for a rate that can't be kept.
func (r *redrive) validate() error {
	if n := r.perSecond; r.limited && (!(n > 0) || n > math.MaxFloat64 || float64(time.Second)/n >= math.MaxInt64) {
		return fmt.Errorf("outbox: %w: option PerSecond: %v, it must be positive and finite, "+
			"and its interval must fit in a time.Duration", store.ErrInvalid, n)
	}
	return nil
}

// wait waits until the rate allows one letter after n.
func (r *redrive) wait(ctx context.Context, start time.Time, n int) error {
	if !r.limited {
		return ctx.Err()
	}
	pause := time.Duration(math.MaxInt64)
	if d := float64(n) / r.perSecond * float64(time.Second); d < math.MaxInt64 {
		pause = time.Duration(d)
	}
	t := time.NewTimer(time.Until(start.Add(pause)))
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
