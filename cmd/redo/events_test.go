package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/outbox/boltoutbox"
	"github.com/redo-go/redo/outbox/memoutbox"
	"github.com/redo-go/redo/store/boltstore"
)

// leaveEvents makes a queue with dead letters, waiting events, an event that was sent and a disabled destination:
// queue orders.redo redo-outbox
func leaveEvents(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: queue FILE NAME")
	}
	ts.Check(makeQueue(ts.MkAbs(args[0]), args[1]))
}

func makeQueue(file, bucket string) (err error) {
	st, err := boltstore.Open(file)
	if err != nil {
		return err
	}
	defer func() {
		if closing := st.Close(); err == nil {
			err = closing
		}
	}()
	q, err := boltoutbox.New(context.Background(), st, boltoutbox.WithBucket(bucket))
	if err != nil {
		return err
	}
	return fillQueue(context.Background(), q)
}

const (
	shop   = "https://shop.example/hooks?token=very-secret"
	audit  = "https://audit.example/"
	closed = "https://closed.example/hooks"
)

func fillQueue(ctx context.Context, q outbox.Queue) error {
	failure := outbox.Failure{
		Code: "DEPENDENCY.unavailable", Reason: "the server is\nbusy",
		Status: 503, Response: "hidden-response", Elapsed: 1500 * time.Millisecond,
	}
	refund := outbox.Event{
		ID: "refund-re_1", Type: "refund.created", OrderingKey: "re_1", Payload: []byte(`{"hidden":"payload"}`),
		Header: map[string][]string{"Content-Type": {"application/json"}, "Authorization": {"very-secret"}},
	}
	events, err := outbox.FanOut(refund, shop, audit)
	if err != nil {
		return err
	}
	order := outbox.Event{ID: "order-1", Type: "order.created", Destination: shop}
	sent := outbox.Event{ID: "sent-1", Type: "order.created", Destination: audit}
	if err := q.Append(ctx, append(events, order, sent)...); err != nil {
		return err
	}
	for attempt := 1; attempt <= 2; attempt++ {
		ds, err := q.Claim(ctx, outbox.Claim{Max: 10, Lease: time.Hour})
		if err != nil {
			return err
		}
		var ended []outbox.Settlement
		for _, d := range ds {
			o := outbox.Outcome{Result: outbox.Dead, Failure: failure}
			switch {
			case d.Event.ID == sent.ID:
				o = outbox.Outcome{Result: outbox.Sent}
			case attempt == 1:
				o.Result = outbox.Waiting
			}
			ended = append(ended, outbox.Settlement{Lease: d.Lease, Outcome: o})
		}
		if lost, err := q.Settle(ctx, ended...); err != nil || len(lost) > 0 {
			return fmt.Errorf("%d leases were lost: %w", len(lost), err)
		}
	}
	if err := q.Disable(ctx, closed, outbox.Failure{Code: "VALIDATION.gone", Status: 410, Reason: "gone"}); err != nil {
		return err
	}
	return q.Append(ctx,
		outbox.Event{ID: "refund-re_2", Type: "refund.created", Destination: shop, OrderingKey: "re_1"},
		outbox.Event{ID: "closed-1", Destination: closed})
}

func TestRedriveKeepsToItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := memoutbox.New()
		require.NoError(t, fillQueue(t.Context(), q))
		var out bytes.Buffer
		e := &events{terminal: terminal{out: &out}}
		r := &redriving{selecting: selecting{events: e}, yes: true}
		start := time.Now()
		require.NoError(t, r.run(t.Context(), q, outbox.Selection{}, nil, 0.5))
		require.Equal(t, 4*time.Second, time.Since(start), "the third waits for two intervals")
		require.Equal(t, "3 of 3 redriven\n", out.String())
	})
}

func TestEventsInJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "orders.redo")
	require.NoError(t, makeQueue(file, "redo-outbox"))
	list := func(args ...string) (all []listedEvent) {
		var out, errs bytes.Buffer
		require.Zero(t, run(t.Context(), append([]string{"events"}, args...), terminal{out: &out, err: &errs}),
			errs.String())
		require.NoError(t, json.Unmarshal(out.Bytes(), &all))
		return all
	}
	hidden := list("show", file, "refund-re_1", "--destination", shop, "--json")
	require.Len(t, hidden, 1)
	require.Equal(t, "https://shop.example/hooks?***", hidden[0].Destination)
	require.Equal(t, []string{masked}, hidden[0].Header["Authorization"])
	require.Equal(t, []string{"application/json"}, hidden[0].Header["Content-Type"])
	require.Equal(t, 20, hidden[0].PayloadSize)
	require.Empty(t, hidden[0].Payload)
	require.Len(t, hidden[0].History, 2)
	require.Equal(t, listedFailure{
		At: hidden[0].History[1].At, Code: "DEPENDENCY.unavailable", Status: 503, Reason: "the server is\nbusy",
		Elapsed: 1.5, ResponseSize: 15,
	}, hidden[0].History[1])

	all := list("list", file, "--json", "--body")
	require.Len(t, all, 5)
	require.Equal(t, `{"hidden":"payload"}`, string(all[0].Payload))
	require.Equal(t, "hidden-response", all[0].History[0].Response)
	require.Equal(t, shop, all[0].Destination)
	require.Zero(t, all[0].DueAt)
	require.NotZero(t, all[4].DueAt)
	require.Zero(t, all[4].DeadAt)
}

func TestInstants(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"": {}, "0s": now, "24h": now.Add(-24 * time.Hour),
		"2026-01-01T00:00:00+01:00": time.Date(2025, 12, 31, 23, 0, 0, 0, time.UTC),
	} {
		got, err := parseInstant("--since", text, now)
		require.NoError(t, err)
		require.True(t, want.Equal(got), "%q is %v, want %v", text, got, want)
	}
	for _, text := range []string{"yesterday", "-1h", "2026-01-01", "24"} {
		_, err := parseInstant("--since", text, now)
		require.ErrorContains(t, err, fmt.Sprintf("--since %q: it must be a duration", text))
	}
}

func TestRates(t *testing.T) {
	for text, want := range map[string]float64{"": 0, "100/s": 100, "0.5/s": 0.5} {
		got, err := parseRate(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"100", "0/s", "-1/s", "many/s", "NaN/s", "Inf/s", "1/m"} {
		_, err := parseRate(text)
		require.ErrorContains(t, err, fmt.Sprintf("--rate %q: it must be a positive number", text))
	}
}

func TestAFailureNamesItsCodeAndStatusOnce(t *testing.T) {
	const unavailable = "DEPENDENCY.unavailable"
	for _, c := range []struct {
		failure listedFailure
		want    string
	}{
		{listedFailure{Code: unavailable, Status: 503, Reason: "busy"}, unavailable + " (status 503) busy"},
		{listedFailure{Code: unavailable, Status: 503}, unavailable + " (status 503)"},
		{
			listedFailure{
				Code: unavailable, Status: 503, Reason: "redo: " + unavailable + " (status 503) after 1 attempt, effect unknown",
			},
			unavailable + " (status 503) after 1 attempt, effect unknown",
		},
		{
			listedFailure{Code: unavailable, Reason: "inbox: event \"a\"/\"b\": " + unavailable + ": no\nroute"},
			"inbox: event \"a\"/\"b\": " + unavailable + ": no route",
		},
		{listedFailure{Reason: "no code"}, "no code"},
		{listedFailure{}, "-"},
	} {
		require.Equal(t, c.want, c.failure.text())
	}
}
