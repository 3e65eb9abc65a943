package redisstore

import (
	"math"
	"strconv"
	"time"
)

// Words are the short arguments of one call. They are written one after another into room on the stack, and then cut out
// of one string, so that memory is taken once and not for each. They are copies of what the caller holds: a command may be
// written after the call that gave up on it has returned.
type words struct {
	text []byte
	ends [maxWords]int
	n    int
}

const (
	maxWords  = 5
	wordsRoom = 128 // bytes, more than any call needs
)

// cut returns the words in their order.
func (w words) cut() (all [maxWords]string) {
	text, from := string(w.text), 0
	for i, end := range w.ends[:w.n] {
		all[i], from = text[from:end], end
	}
	return all
}

func (w words) end() words {
	w.ends[w.n] = len(w.text)
	w.n++
	return w
}

func (w words) bytes(b []byte) words {
	w.text = append(w.text, b...)
	return w.end()
}

// padded writes n with zeros before it, in as many digits as it takes if those are too few.
func (w words) padded(n uint64, digits int) words {
	var room [20]byte
	text := strconv.AppendUint(room[:0], n, 10)
	for range digits - len(text) {
		w.text = append(w.text, '0')
	}
	w.text = append(w.text, text...)
	return w.end()
}

// micros is d in microseconds, rounded up: no lease is shorter than it was asked for.
func (w words) micros(d time.Duration) words {
	n := d / time.Microsecond
	if d%time.Microsecond > 0 {
		n++
	}
	w.text = strconv.AppendInt(w.text, int64(n), 10)
	return w.end()
}

// retention is micros, with -1 for an endless one.
func (w words) retention(d time.Duration) words {
	if d == math.MaxInt64 {
		w.text = append(w.text, "-1"...)
		return w.end()
	}
	return w.micros(d)
}
