package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox/pgoutbox"
	"github.com/redo-go/redo/store/pgstore/pgtest"
)

func TestEventsInPostgres(t *testing.T) {
	url := pgtest.URL(t)
	schema := pgtest.NewSchema(t, url)
	q, err := pgoutbox.New(pgtest.NewPool(t, url, 2), pgoutbox.WithSchema(schema), pgoutbox.WithTable("orders"))
	require.NoError(t, err)
	command := func(args ...string) (status int, out, errs string) {
		var o, e bytes.Buffer
		args = append([]string{"events"}, append(args, "--queue", "orders", "--schema", schema)...)
		status = run(t.Context(), args, terminal{in: strings.NewReader("y\n"), out: &o, err: &e})
		return status, o.String(), e.String()
	}
	status, _, errs := command("list", url)
	require.Equal(t, exitFailed, status)
	require.Contains(t, errs, "orders", "the table that does not exist")
	require.NoError(t, q.Migrate(t.Context()))
	require.NoError(t, fillQueue(t.Context(), q))

	status, out, errs := command("list", url, "--json")
	require.Zero(t, status, errs)
	var all []listedEvent
	require.NoError(t, json.Unmarshal([]byte(out), &all))
	require.Len(t, all, 5)
	require.Len(t, all[0].History, 2)
	require.NotContains(t, out, "very-secret")

	status, out, errs = command("redrive", url, "--type", "refund.created")
	require.Zero(t, status, errs)
	require.Contains(t, out, "2 of 2 redriven")
	status, out, _ = command("drop", url, "order-1", "--yes")
	require.Zero(t, status)
	require.Contains(t, out, "order-1 is dropped")
	status, out, _ = command("disabled", url)
	require.Zero(t, status)
	require.Contains(t, out, closed)
	status, _, errs = command("enable", url, closed)
	require.Zero(t, status, errs)
	status, out, errs = command("purge", url, "--older-than", "0s")
	require.Zero(t, status, errs)
	require.Equal(t, "1 deleted\n", out)
	stats, err := q.Stats(t.Context())
	require.NoError(t, err)
	require.Zero(t, stats.Dead)
	require.Equal(t, 4, stats.Waiting)
}

func TestPostgresURLIsNoFile(t *testing.T) {
	var errs bytes.Buffer
	status := run(t.Context(), []string{"events", "list", "postgres://ana:very-secret@127.0.0.1:1/x"},
		terminal{err: &errs})
	require.Equal(t, exitFailed, status)
	require.Contains(t, errs.String(), "127.0.0.1")
	require.NotContains(t, errs.String(), "very-secret")
	require.NotContains(t, errs.String(), "file")
}
