package limit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redo-go/redo/internal/null"
)

// Limiter makes each attempt wait until it may be sent. *rate.Limiter of golang.org/x/time/rate is a Limiter. Wait
// returns an error if ctx ends, or would end, before the attempt may be sent; the attempt is then not sent. Wait
// must be safe for concurrent use.
//
// A Limiter that is also a [Reporter] or a [QuotaReporter] learns from the responses.
type Limiter interface {
	Wait(ctx context.Context) error
}

// Reporter is a [Limiter] that learns the rate of the server. The client calls Report after each attempt that got a
// response. limited is true if the server refused the attempt for too many requests. Report must be safe for
// concurrent use.
type Reporter interface {
	Report(limited bool)
}

// QuotaReporter is a [Limiter] that learns the quota of the server. The client calls ReportQuota after each attempt
// whose response reports a quota in the header RateLimit: remaining more requests are allowed until the quota is
// restored, after reset. A refusal with a wait is a quota of which nothing remains. ReportQuota must be safe for
// concurrent use.
type QuotaReporter interface {
	ReportQuota(remaining int, reset time.Duration)
}

// A Response holds the facts about a server's limits in the response to one attempt.
type Response struct {
	None      bool // the attempt ended without a response; the other fields are then zero
	Failed    bool // the attempt was a transient failure
	Limited   bool // the server refused the attempt for too many requests
	Quota     bool // Remaining and Reset are known
	Remaining int
	Reset     time.Duration
}

// Report reports the end of an attempt at d to l, if l learns from responses. The attempt must have passed the Wait of
// l. A [QuotaLimiter] gets back an attempt without a response, and a failure that reports no quota.
func Report(l Limiter, d Destination, resp Response) {
	own := For(l, d)
	if q, ok := quotaOf(own); ok && (resp.None || resp.Failed && !resp.Limited && !resp.Quota) {
		q.giveBack()
		return
	}
	if r, ok := own.(Reporter); ok && !resp.None {
		r.Report(resp.Limited)
	}
	if r, ok := own.(QuotaReporter); ok && resp.Quota {
		r.ReportQuota(resp.Remaining, resp.Reset)
	}
}

// quotaOf returns the QuotaLimiter that l is, or holds for one destination.
func quotaOf(l Limiter) (*QuotaLimiter, bool) {
	if own, ok := l.(*destinationLimiter); ok {
		l = own.limiter
	}
	q, ok := l.(*QuotaLimiter)
	return q, ok
}

var errNoFunction = errors.New("limit: PerDestination was given a nil function")

// Validate returns an error if l can't be used. It refuses a nil pointer or function in a non-nil Limiter, and the
// result of [PerDestination] for a nil function. It also refuses an AdaptiveLimiter and a QuotaLimiter that their
// functions did not make. A nil Limiter is valid and limits nothing.
func Validate(l Limiter) error {
	if l == nil {
		return nil
	}
	if null.Is(l) {
		return fmt.Errorf("limit: the limiter is a nil %T", l)
	}
	switch l := l.(type) {
	case *perDestination:
		if l.make == nil {
			return errNoFunction
		}
	case *AdaptiveLimiter:
		if l.limiter == nil {
			return errors.New("limit: the AdaptiveLimiter was not made by NewAdaptiveLimiter")
		}
	case *QuotaLimiter:
		if l.changed == nil {
			return errors.New("limit: the QuotaLimiter was not made by NewQuotaLimiter")
		}
	}
	return nil
}

// Wait waits for l, and returns nil immediately if l is nil. It returns the cause of ctx if ctx has ended. If l
// refuses for another reason, such as a deadline that is too near, the error matches [ErrLimited] and the error of
// l.
func Wait(ctx context.Context, l Limiter) error {
	if l == nil {
		return nil
	}
	if err := l.Wait(ctx); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return errors.Join(ErrLimited, err)
	}
	return nil
}
