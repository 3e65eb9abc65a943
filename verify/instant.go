package verify

import (
	"fmt"
	"time"
)

// An instant is a point in time as the model knows it. The zero instant is none: no lease, no expiry.
type instant struct {
	set bool
	// at is when, since the history began. On an engine's own clock it is nominal: calls take no time there.
	at time.Duration
	// seen is the exact instant that the store has shown, in nanoseconds since 1970, zero when it has not. It must
	// be shown the same from then on.
	seen int64
}

// A timescale converts the instants of a store to those of the model.
type timescale struct {
	epoch time.Time // when the history began, zero on an engine's own clock
	slack time.Duration
}

// virtual is the timescale of a bubble's clock: exact.
func virtual(epoch time.Time) timescale { return timescale{epoch: epoch} }

// nominal is the timescale of an engine's clock. The durations in a history on it are none or hours, and lie hours
// apart; a history lasts for minutes at most.
func nominal() timescale { return timescale{slack: 30 * time.Minute} }

func (ts timescale) exact() bool { return !ts.epoch.IsZero() }

// now is the instant of a call that begins now.
func (ts timescale) now() time.Duration {
	if !ts.exact() {
		return 0
	}
	return time.Since(ts.epoch)
}

// sees compares an instant in a record with the model's instant i. The record was read at readAt, by a call made
// at now. sees returns i with the exact instant that the store has shown.
func (ts timescale) sees(i instant, shown, readAt time.Time, now time.Duration) (instant, error) {
	switch {
	case i.set == shown.IsZero():
		return i, fmt.Errorf("shown %v, want %v", shown, i)
	case !i.set:
		return i, nil
	case ts.exact():
		if got := shown.Sub(ts.epoch); got != i.at {
			return i, fmt.Errorf("shown %v, want %v", got, i.at)
		}
		return i, nil
	}
	if off := shown.Sub(readAt) - (i.at - now); off.Abs() > ts.slack {
		return i, fmt.Errorf("shown %v after the reading, want about %v", shown.Sub(readAt), i.at-now)
	}
	if i.seen != 0 && i.seen != shown.UnixNano() {
		return i, fmt.Errorf("shown %v, and %v before", shown, time.Unix(0, i.seen))
	}
	i.seen = shown.UnixNano()
	return i, nil
}

func after(now, d time.Duration) instant { return instant{set: true, at: now + d} }

func (i instant) String() string {
	if !i.set {
		return "none"
	}
	return i.at.String()
}
