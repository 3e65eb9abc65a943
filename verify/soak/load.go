package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/limit"
	"github.com/redo-go/redo/store"
)

// A load has workers that call a service, one operation after the other.
type load struct {
	client  *redo.Client
	service *service
	done    []atomic.Int64 // by worker: the operations that succeeded
}

func newLoad(st store.Store, workers int, faults float64, retention time.Duration) (*load, error) {
	s, err := serve(st, workers, retention)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{MaxIdleConnsPerHost: workers}
	client, err := redo.New(redo.WithStore(st), redo.WithScope("soak"), redo.WithOutcomeRetention(retention),
		redo.WithTransport(lossy{transport, faults}), redo.WithBudget(limit.Budget{Unlimited: true}),
		redo.WithRetry(redo.RetryPolicy{
			MaxAttempts: 50, BaseDelay: time.Millisecond, MaxDelay: 10 * time.Millisecond, MaxElapsed: time.Minute,
			AttemptTimeout: 10 * time.Second,
		}))
	if err != nil {
		s.Close()
		return nil, err
	}
	return &load{client: client, service: s, done: make([]atomic.Int64, workers)}, nil
}

// run calls until the context ends, or until one operation fails. Every operation that began is finished.
func (l *load) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	failed := make([]error, len(l.done))
	var all sync.WaitGroup
	for worker := range l.done {
		all.Go(func() {
			for number := int64(1); ctx.Err() == nil; number++ {
				if failed[worker] = l.call(context.WithoutCancel(ctx), worker, number); failed[worker] != nil {
					stop()
					return
				}
				l.done[worker].Store(number)
			}
		})
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	return l.settle()
}

func (l *load) call(ctx context.Context, worker int, number int64) error {
	ctx = redo.WithOperation(ctx, fmt.Sprintf("%d:%d", worker, number))
	url := fmt.Sprintf("%s/charges?worker=%d&number=%d", l.service.URL, worker, number)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"amount":1000}`))
	if err != nil {
		return err
	}
	resp, err := l.client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

// settle compares the operations with the effects.
func (l *load) settle() error {
	if operations, effects := l.operations(), l.service.effects.Load(); operations != effects || operations == 0 {
		return fmt.Errorf("%d operations had %d effects", operations, effects)
	}
	if wrong := l.service.wrong.Load(); wrong > 0 {
		return fmt.Errorf("%d effects were not the next one of their worker", wrong)
	}
	return nil
}

func (l *load) operations() (n int64) {
	for i := range l.done {
		n += l.done[i].Load()
	}
	return n
}

func (l *load) close() error {
	l.service.Close()
	return l.client.Close()
}
