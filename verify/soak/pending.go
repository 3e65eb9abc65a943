package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/limit"
	"github.com/redo-go/redo/store/boltstore"
)

// resume leaves operations pending in a boltstore file, as a crash does, and opens the file again. A client resumes
// them. It must send each exactly once, and no more than resumeWorkers at a time.
func resume(ctx context.Context, operations int, dir string, out io.Writer) error {
	file := filepath.Join(dir, "pending.redo")
	peer := newPeer()
	defer peer.Close()
	if err := leave(ctx, operations, file, peer.URL); err != nil {
		return err
	}
	begun := time.Now()
	st, err := boltstore.Open(file)
	if err != nil {
		return err
	}
	opened := time.Since(begun)
	client, err := redo.New(redo.WithStore(st), redo.WithBudget(limit.Budget{Unlimited: true}),
		redo.WithRetry(redo.RetryPolicy{MaxElapsed: elapsed}))
	if err != nil {
		return errors.Join(err, st.Close())
	}
	time.Sleep(elapsed) // until then an earlier call might still run
	running, stop := context.WithCancelCause(ctx)
	left, failed := operations, error(nil)
	begun = time.Now()
	_ = client.ResumeEvery(running, time.Second, func(op redo.Operation, err error) {
		if left--; err != nil {
			failed = fmt.Errorf("%s: %w", op.Name, err)
		}
		if left == 0 || failed != nil {
			stop(nil)
		}
	})
	took := time.Since(begun)
	if err := errors.Join(failed, ctx.Err(), client.Close(), st.Close()); err != nil {
		return err
	}
	fmt.Fprintf(out, "operations  %d\nopened in   %v\nresumed in  %v\nrequests    %d\nat a time   %d\n",
		operations, opened.Round(time.Millisecond), took.Round(time.Millisecond), peer.requests.Load(), peer.most)
	return peer.judge(operations)
}

// elapsed bounds the calls of the client that resumes.
const elapsed = 2 * time.Second

// resumeWorkers is the number of operations that the documentation of ResumeEvery promises not to exceed.
const resumeWorkers = 4

// leave calls operations whose requests fail before they are sent, so that they stay pending.
func leave(ctx context.Context, operations int, file, url string) error {
	st, err := boltstore.Open(file)
	if err != nil {
		return err
	}
	client, err := redo.New(redo.WithStore(st), redo.WithBudget(limit.Budget{Unlimited: true}),
		redo.WithTransport(lossy{rate: 1}), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}))
	if err != nil {
		return errors.Join(err, st.Close())
	}
	var callers sync.WaitGroup
	var next, kept atomic.Int64
	for range 256 { // they share commits
		callers.Go(func() {
			for n := next.Add(1); n <= int64(operations) && ctx.Err() == nil; n = next.Add(1) {
				ctx := redo.WithOperation(ctx, fmt.Sprint("operation ", n))
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
				if err != nil {
					return
				}
				if _, err = client.Do(req); errors.Is(err, errLost) {
					kept.Add(1)
				}
			}
		})
	}
	callers.Wait()
	if n := kept.Load(); n != int64(operations) {
		err = fmt.Errorf("%d of %d operations are pending", n, operations)
	}
	return errors.Join(err, ctx.Err(), client.Close(), st.Close())
}

// A peer counts requests, keys, and the requests that it serves at a time.
type peer struct {
	*httptest.Server
	requests atomic.Int64

	mu      sync.Mutex
	keys    map[string]int
	serving int
	most    int
}

func newPeer() *peer {
	p := &peer{keys: map[string]int{}}
	p.Server = httptest.NewServer(p)
	return p
}

func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.requests.Add(1)
	p.mu.Lock()
	p.keys[r.Header.Get("Idempotency-Key")]++
	p.serving++
	p.most = max(p.most, p.serving)
	p.mu.Unlock()
	_, _ = io.Copy(io.Discard, r.Body)
	w.WriteHeader(http.StatusCreated)
	p.mu.Lock()
	p.serving--
	p.mu.Unlock()
}

func (p *peer) judge(operations int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, n := range p.keys {
		if n != 1 || key == "" {
			return fmt.Errorf("the key %q came %d times", key, n)
		}
	}
	switch {
	case len(p.keys) != operations:
		return fmt.Errorf("%d keys came for %d operations", len(p.keys), operations)
	case p.most > resumeWorkers:
		return fmt.Errorf("%d requests came at a time, at most %d are promised", p.most, resumeWorkers)
	}
	return nil
}
