package redo

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// A loop is go-retryablehttp's client and request for the retries of one call. The first attempt is made outside of it,
// since most calls need no other; the loop then waits, asks for the next attempt, and so on, until a decision ends it.
//
// The library sees a request without headers and body, and never a response: what travels is the attempt's own, so
// nothing is read into memory, nothing is shared between attempts, and http.Client finds no redirect to follow.
//
// Loops are used again: nothing refers to one once its Do has returned.
type loop struct {
	client  retryablehttp.Client
	request retryablehttp.Request
	made    int32    // attempts
	next    *attempt // what the next turn is to make, nil when it has been made
}

var loops = sync.Pool{New: func() any {
	l := &loop{}
	l.client.HTTPClient = &http.Client{Transport: turns{}}
	l.client.CheckRetry = checkRetry
	l.client.Backoff = backoff
	l.client.PrepareRetry = prepareRetry
	l.client.ErrorHandler = retryablehttp.PassthroughErrorHandler
	return l
}}

// retry makes further attempts while the decision is to retry.
func (k *call) retry() {
	l := loops.Get().(*loop)
	defer func() {
		l.request.Request, l.next, k.loop = nil, nil, nil
		loops.Put(l)
	}()
	k.loop, l.made = l, 1
	l.client.RetryMax = k.client.retry.MaxAttempts // never reached: the decision counts, and stops one earlier
	r := k.req.WithContext(k)
	r.Header, r.Body, r.GetBody, r.ContentLength = http.Header{}, nil, nil, 0
	l.request.Request = r
	_, _ = l.client.Do(&l.request) // never a response, and the error says what the call knows
}

// turns is the loop's transport: each turn is an attempt, save that the first finds it made. It has no
// CloseIdleConnections on purpose: the loop calls that on every failure, and would empty the pool that all calls
// share.
type turns struct{}

// errTurn stands for an attempt's outcome, which the call has.
var errTurn = errors.New("redo: the attempt's outcome is the call's")

func (turns) RoundTrip(r *http.Request) (*http.Response, error) {
	k := callFrom(r.Context())
	if a := k.loop.next; a != nil {
		k.loop.next = nil
		k.try(a)
	}
	return nil, errTurn
}

// checkRetry is the loop's question whether to go on.
func checkRetry(ctx context.Context, _ *http.Response, _ error) (bool, error) {
	k := callFrom(ctx)
	k.loop.client.RetryWaitMin = k.decision.wait
	return k.decision.retry, nil
}

// backoff returns the wait that checkRetry put there.
func backoff(wait, _ time.Duration, _ int, _ *http.Response) time.Duration { return wait }

// prepareRetry provides the next attempt, after the wait.
func prepareRetry(r *http.Request) error {
	k := callFrom(r.Context())
	k.loop.made++
	k.loop.next = &attempt{number: k.loop.made, start: time.Now(), waited: k.decision.wait}
	return nil
}
