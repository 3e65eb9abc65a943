package redo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/redo-go/redo/internal/turn"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

const (
	resumeWorkers    = 4         // operations that one ResumeEvery resumes at a time
	maxResumeBackoff = time.Hour // between two attempts at the same operation
	resumeScope      = "resume:" // prefix of the client's scope, for the records of the turns
)

// ResumeEvery resumes pending operations now and then once per interval, until ctx ends or the client is closed. It
// waits for the calls under way, and returns the error of ctx or [ErrClosed]. It returns an error immediately if the
// interval is not positive or the client has no store.
//
// The report receives each resumed operation with its error, nil for a success. A redirect is an error, since the
// operation stays pending. It also receives records that can't be read, and an error with a zero Operation if the
// listing fails. One goroutine calls it at a time. If it is nil, operations that Resume would refuse are skipped.
//
// An operation that fails again is resumed after the interval, then after twice that, and so on up to an hour. The
// wait is never shorter than RetryPolicy.MaxElapsed, and it does not end before Error.RetryAt. Processes that share
// the store take turns, so that one of them resumes an operation. One ResumeEvery resumes at most four operations at
// a time. It skips operations that were called less than RetryPolicy.MaxElapsed ago, since that call may still run. It
// also skips those that were called through [Client.Transport], until the deadline of that call.
func (c *Client) ResumeEvery(ctx context.Context, interval time.Duration, report func(Operation, error)) error {
	switch {
	case interval <= 0:
		return fmt.Errorf("redo: ResumeEvery: the interval is %v, it must be positive", interval)
	case c.store == nil:
		return errors.New("redo: ResumeEvery: the client has no store: use WithStore")
	case len(resumeScope)+len(c.scope) > store.MaxScope:
		return fmt.Errorf("redo: ResumeEvery: the scope has %d bytes, at most %d are allowed here",
			len(c.scope), store.MaxScope-len(resumeScope))
	}
	r := &resumer{client: c, interval: interval, report: report}
	ticks := time.Tick(interval)
	for {
		r.round(ctx)
		select {
		case <-c.life.Done():
			return ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		case <-ticks:
		}
	}
}

// A resumer is one run of ResumeEvery.
type resumer struct {
	client   *Client
	interval time.Duration
	mu       sync.Mutex // guards report
	report   func(Operation, error)
}

// notify calls report, if there is one, under the lock.
func (r *resumer) notify(op Operation, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.report != nil {
		r.report(op, err)
	}
}

// round resumes the pending operations that are due, and waits for them.
func (r *resumer) round(ctx context.Context) {
	var running sync.WaitGroup
	places := make(chan struct{}, resumeWorkers)
	defer running.Wait()
	for op, err := range turn.Patient(ctx, r.client.Pending) {
		places <- struct{}{} // the calls that hold one end with ctx
		switch {
		case ctx.Err() != nil, r.client.life.Err() != nil:
			return
		case err != nil:
			r.notify(op, err)
		case r.report == nil && op.request.Resumable(r.client.credentials != nil) != nil: // Resume would refuse
		case op.idle >= r.client.retry.MaxElapsed && !r.client.flights.UnderWay(op.Name):
			running.Go(func() {
				defer func() { <-places }()
				r.one(ctx, op)
			})
			continue
		}
		<-places
	}
}

// one resumes an operation if this process gets its turn.
func (r *resumer) one(ctx context.Context, op Operation) {
	c := r.client
	asking, cancel := context.WithTimeout(ctx, turn.Patience)
	defer cancel()
	if now, err := c.Find(asking, op.Name); err == nil && now.idle < c.retry.MaxElapsed {
		return // it was called or settled after it was listed
	}
	id := store.ID{Scope: resumeScope + c.scope, Key: fmt.Sprint(op.Name, " ", op.CreatedAt.UnixNano())}
	pace := turn.Pace{Interval: r.interval, Most: maxResumeBackoff, Least: c.retry.MaxElapsed} // it is resumed for Least
	taken, err := turn.Take(asking, c.store, id, pace)
	if err != nil {
		r.notify(op, err)
	}
	if taken == nil {
		return
	}
	resp, err := c.Resume(ctx, op)
	if err == nil {
		err = resp.Body.Close()
	}
	if l := loopOfResponse(resp); err == nil && resp.StatusCode/100 == 3 && !l.fromStore &&
		l.known.Effect(l.last.verdict) != Applied {
		resp.Body = http.NoBody
		err = l.failed(taxonomy.RedirectNotFollowed, EffectUnknown, resp,
			errors.New("redo: ResumeEvery: the response is a redirect, and the operation stays pending"))
	}
	if err == nil {
		taken.Forget(ctx, c.store)
	} else if e, ok := errors.AsType[*Error](err); ok {
		// The server's hint holds for every process. Once the key is too old the operation is due anyway, for the probe.
		due := e.RetryAt
		if tooOld := time.Now().Add(c.retention.Usable() - op.Age); tooOld.Before(due) {
			due = tooOld
		}
		if lost := taken.Postpone(ctx, c.store, due); lost != nil {
			err = errors.Join(err, fmt.Errorf("redo: ResumeEvery: keeping the time of the next attempt: %w", lost))
		}
	}
	r.notify(op, err)
}
