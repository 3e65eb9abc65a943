package outbox

import (
	"errors"
	"math"
	"net/http"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

// Schedule returns the default waits between two attempts: 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 14 h, 20 h and 24
// h. They are those of Standard Webhooks. The first attempt is made immediately, so there are 10 attempts in 76
// hours.
func Schedule() []time.Duration {
	const m, h = time.Minute, time.Hour
	return []time.Duration{5 * time.Second, 5 * m, 30 * m, 2 * h, 5 * h, 10 * h, 14 * h, 20 * h, 24 * h}
}

// jitter is the maximum fraction by which a wait of the schedule is longer or shorter.
const jitter = 0.2

// span returns the longest total of the waits.
func span(waits []time.Duration) (total time.Duration) {
	for _, w := range waits {
		w += time.Duration(jitter * float64(w))
		if total > math.MaxInt64-w {
			return math.MaxInt64
		}
		total += w
	}
	return total
}

// unfinished is the failure of an event whose attempts are used up at its claim. Its last attempt was started and not
// settled, or an earlier relay had a longer schedule. The count alone does not show which.
var unfinished = Failure{
	Code: taxonomy.OutcomeUnknown,
	Reason: "outbox: no attempt is left: the last one did not end, because its relay has died or has lost its lease, " +
		"or the schedule is shorter now",
}

// attempted holds all inputs of the decision after an attempt.
type attempted struct {
	waits   []time.Duration
	number  int           // of the attempt, from 1
	hint    time.Duration // the server's, or the client's own, already capped; zero: none
	random  float64       // in [0, 1)
	elapsed time.Duration
	err     error // the publisher's
}

// decide returns the outcome for the event, and the verdict about its destination.
func decide(a attempted) (Outcome, verdict, Failure) {
	v, code := judge(a.err)
	if v == delivered {
		return Outcome{Result: Sent}, v, Failure{}
	}
	f := failureOf(a.err, code, a.elapsed)
	last := a.number > len(a.waits)
	switch {
	case v == notSent, v == gone && last:
		return Outcome{Result: Released}, v, f
	case v == gone:
		return Outcome{Result: Waiting, Failure: f}, v, f
	case v == rejected, last:
		return Outcome{Result: Dead, Failure: f}, v, f
	}
	wait := a.waits[a.number-1]
	wait += time.Duration(jitter * (2*a.random - 1) * float64(wait))
	return Outcome{Result: Waiting, Wait: min(max(wait, a.hint), maxWait), Failure: f}, v, f
}

// hintOf returns the wait that the server or the client requests, at most limit.
func hintOf(err error, now time.Time, limit time.Duration) time.Duration {
	e, ok := errors.AsType[*redo.Error](err)
	switch {
	case !ok:
	case !e.RetryAt.IsZero():
		return min(max(0, e.RetryAt.Sub(now)), limit)
	case e.Response != nil: // no RetryAt: the body stalled until the attempt's timeout, or the client would not retry
		hint, _ := wire.Hint(e.Response.Header, now, e.StatusCode == http.StatusTooManyRequests)
		return min(hint, limit)
	}
	return 0
}
