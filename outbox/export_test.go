package outbox

import (
	"time"

	"github.com/redo-go/redo/taxonomy"
)

// Judge returns the outcome of an event whose first attempt ended with the error.
func Judge(err error) Outcome {
	o, _, _ := decide(attempted{
		waits: Schedule(), number: 1, random: 0.5, hint: hintOf(err, time.Now(), DefaultHintCap), err: err,
	})
	return o
}

// JudgedCode returns the code of an attempt that ended with the error.
func JudgedCode(err error) taxonomy.Code {
	_, code := judge(err)
	return code
}

// IsGone reports whether the error of a Publisher disables the destination.
func IsGone(err error) bool {
	v, _ := judge(err)
	return v == gone
}

// Random sets the source of the schedule's jitter.
func Random(f func() float64) Option { return optionFunc(func(c *config) { c.random = f }) }

// Options joins options to one.
func Options(opts ...Option) Option {
	return optionFunc(func(c *config) {
		for _, o := range opts {
			o.apply(c)
		}
	})
}

// Running returns the number of calls of Run that the relay knows.
func Running(r *Relay) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.runs)
}

// Remembered returns the number of forgotten destinations whose last success the relay keeps.
func Remembered(r *Relay) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for one := range r.runs {
		one.mu.Lock()
		n += len(one.past)
		one.mu.Unlock()
	}
	return n
}
