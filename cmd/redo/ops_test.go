package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/store"
)

func TestOnlyAYesIsAYes(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "YES\n": true, "yes": true, "n\n": false, "\n": false,
		"": false, "yep\n": false} {
		var asked bytes.Buffer
		require.Equal(t, want, newAsker(terminal{in: strings.NewReader(answer), err: &asked}).yes(t.Context(), "Sure?"),
			"%q", answer)
		said := "Sure? [y/N] "
		if answer == "" {
			said += "\nno reply: with --yes the command does not ask\n"
		}
		require.Equal(t, said, asked.String())
	}
}

func TestInterruptIsANo(t *testing.T) {
	silent, w := io.Pipe()
	t.Cleanup(func() { _ = w.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, newAsker(terminal{in: silent, err: io.Discard}).yes(ctx, "Sure?"))
}

func TestShownOperationMasksCredentialsAndNothingElse(t *testing.T) {
	var out bytes.Buffer
	meta, err := json.Marshal(request{
		Version: requestVersion, Method: "POST", URL: "http://x/y", Host: "z", Whole: true, Body: []byte{0xFF},
		Header: map[string][]string{"X-Session": {"abc"}, "X-Author-Id": {"7"}, "I-Twilio-Idempotency-Token": {"t1"},
			"Accept": {"*/*"}},
	})
	require.NoError(t, err)
	op := operationOf(store.Record{ID: store.ID{Key: "refund:1"}, State: store.StatePending, Meta: meta})
	op.learn(redo.Operation{Effect: redo.NotApplied})
	writeOperation(&out, op, true)
	require.Equal(t, `name       refund:1
state      pending
begun      0001-01-01T00:00:00Z, 0s ago
effect     not applied
request    POST http://x/y
host       z
header     Accept: */*
header     I-Twilio-Idempotency-Token: t1
header     X-Author-Id: 7
header     X-Session: ***
resumable  no: run the same code again

"\xff"
`, out.String())
}

func TestOperationOfAnotherReleaseIsShownAsSuch(t *testing.T) {
	op := operationOf(store.Record{ID: store.ID{Key: "refund:1"}, Meta: []byte(`{"v":2,"key":"k"}`)})
	require.Equal(t, "its request has version 2, this program reads 1", op.Problem)
	require.Empty(t, op.Key)
	op = operationOf(store.Record{ID: store.ID{Key: "refund:1"}, Meta: []byte("not JSON")})
	require.Equal(t, "its request can't be read: it may be sealed", op.Problem)
}
