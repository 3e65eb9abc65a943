package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A brokenClient retries every response but 201, without a delay. Each field breaks a promise or keeps one.
type brokenClient struct {
	key      func(attempt int) string // nil sets no key
	body     func(attempt int) []byte // nil sends the payload
	attempts int
	timeout  time.Duration // of an attempt; zero means none
	wait     time.Duration // between attempts
	effect   string        // of each failure; empty for none
}

func (b brokenClient) peer() peer {
	p := peer{name: "broken", makesKey: b.key != nil, retries: b.attempts > 1, open: func(to target) (sender, error) {
		return sender{send: func(ctx context.Context, payload []byte, key []string) (err error) {
			for n := range b.attempts {
				if err = b.attempt(ctx, to, n, payload, key); err == nil {
					return nil
				}
				time.Sleep(b.wait)
			}
			return err
		}}, nil
	}}
	p.bounds = b.timeout > 0 && time.Duration(b.attempts)*b.timeout <= 10*time.Second
	if b.effect != "" {
		p.effect = func(error) string { return b.effect }
	}
	return p
}

func (b brokenClient) attempt(ctx context.Context, to target, n int, payload []byte, key []string) error {
	if b.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, b.timeout)
		defer cancel()
	}
	if b.body != nil {
		payload = b.body(n)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.url, bytes.NewReader(payload))
	if err != nil {
		return err
	}
	if b.key != nil {
		key = []string{b.key(n)}
	}
	req.Header["Idempotency-Key"] = key
	resp, err := to.rt.RoundTrip(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err == nil && resp.StatusCode != http.StatusCreated {
		err = fmt.Errorf("the status is %d", resp.StatusCode)
	}
	return err
}

// A client that breaks a promise gets another cell than one that keeps it in an unusual way.
func TestABrokenPromiseIsSeen(t *testing.T) {
	constant := func(int) string { return "constant" }
	for _, c := range []struct {
		rule    string
		client  brokenClient
		observe func(*testing.T, peer) string
		want    string
	}{
		{"a key of the caller is not the client's", brokenClient{attempts: 1}, sendsKey, broken},
		{"a constant is a key", brokenClient{attempts: 1, key: constant}, sendsKey, kept},
		{
			"a key of each attempt is not repeated",
			brokenClient{attempts: 3, key: func(n int) string { return fmt.Sprint("key-", n) }}, repeatsKey, broken,
		},
		{"a constant is repeated", brokenClient{attempts: 3, key: constant}, repeatsKey, kept},
		{"a constant outlives a restart", brokenClient{attempts: 1, key: constant}, keepsKey, kept},
		{"no key outlives no restart", brokenClient{attempts: 1}, keepsKey, broken},
		{"one attempt is no retry", brokenClient{attempts: 1}, retriesTransient, broken},
		{"a wait that is too short", brokenClient{attempts: 2, wait: 7*time.Second - 1}, waitsForHint, broken},
		{"a longer wait than the hint", brokenClient{attempts: 2, wait: time.Minute}, waitsForHint, kept},
		{"a terminal response is sent for again", brokenClient{attempts: 2}, sendsOnce, broken},
		{"a client without retries sends once", brokenClient{attempts: 1}, sendsOnce, "422, 501"},
		{
			"a retry without the body", brokenClient{attempts: 2, body: func(n int) []byte {
				return payload[:len(payload)*(1-n)]
			}}, rewinds, broken,
		},
		{"a retry with the body", brokenClient{attempts: 2}, rewinds, kept},
		{"no timeout", brokenClient{attempts: 1}, endsCall, broken},
		{"a timeout of the call", brokenClient{attempts: 1, timeout: 10 * time.Second}, endsCall, "after 10 s"},
		{"a timeout of each attempt", brokenClient{attempts: 3, timeout: 20 * time.Second}, endsCall,
			"after 60 s, 3 attempts"},
		{"a lost response is called not applied", brokenClient{attempts: 1, effect: "not applied"}, reportsEffect,
			broken},
		{"a request that was never sent is called unknown", brokenClient{attempts: 1, effect: "unknown"}, reportsEffect,
			broken},
	} {
		t.Run(c.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				require.Equal(t, c.want, c.observe(t, c.client.peer()))
			})
		})
	}
}
