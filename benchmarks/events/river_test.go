package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/riverqueue/river"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/store/memstore"
)

// wait returns the wait that the server asked for. Shorter ones are redo's own, and the queue's backoff is longer.
func wait(err error) time.Duration {
	if e, ok := errors.AsType[*redo.Error](err); ok && time.Until(e.RetryAt) > 2*time.Second {
		return time.Until(e.RetryAt)
	}
	return 0
}

func outcome(err error) error { // for River
	switch {
	case err == nil, errors.Is(err, redo.ErrClosed): // the worker stops
		return err
	case !redo.SafeToRetry(err):
		return river.JobCancel(err)
	case wait(err) > 0:
		return river.JobSnooze(wait(err))
	}
	return err // the queue's own backoff
}

// The page docs/client.md has the mapping.
func TestOutcomeOfAJob(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	const retried, snoozed, canceled = "retried", "snoozed", "canceled"
	for _, c := range []struct {
		name       string
		ctx        context.Context
		status     int
		retryAfter string
		closed     bool
		want       string
	}{
		{"a success", t.Context(), 200, "", false, ""},
		{"a failure without a hint", t.Context(), 503, "", false, retried},
		{"a long hint", t.Context(), 429, "3600", false, snoozed},
		{"a refusal", t.Context(), 422, "", false, canceled},
		{"an unknown effect that no repetition resolves", t.Context(), 409, "", false, canceled},
		{"a job that was stopped", ended, 200, "", false, retried},
		{"a closed client", t.Context(), 200, "", true, retried},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if c.retryAfter != "" {
					w.Header().Set("Retry-After", c.retryAfter)
				}
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(`{}`))
			}))
			defer srv.Close()
			ops := memstore.New()
			defer func() { _ = ops.Close() }()
			client, err := redo.New(redo.WithStore(ops), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = client.Close() }()
			if c.closed {
				_ = client.Close()
			}
			_, err = redo.Call[any](redo.WithOperation(c.ctx, "refund:order-1138"), client, "POST", srv.URL, map[string]int{})
			err = outcome(err)
			got := ""
			if _, ok := errors.AsType[*river.JobSnoozeError](err); ok {
				got = snoozed
			} else if _, ok := errors.AsType[*river.JobCancelError](err); ok {
				got = canceled
			} else if err != nil {
				got = retried
			}
			if got != c.want {
				t.Errorf("the job is %q, want %q: %v", got, c.want, err)
			}
		})
	}
}
