package main

import (
	"bytes"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/store/sqlitestore"
)

// outputOf runs a command, whose exit status must be want, and returns its output.
func outputOf(t *testing.T, want int, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	status := run(t.Context(), args, terminal{in: strings.NewReader(""), out: &out, err: &out})
	require.Equal(t, want, status, "%v: %s", args, out.String())
	return out.String()
}

func TestADamagedOperationIsFoundByItsName(t *testing.T) {
	file := filepath.Join(t.TempDir(), "payments.redo")
	st, err := boltstore.Open(file)
	require.NoError(t, err)
	leaveUnknown(t, st, "refund:1")
	client, err := redo.New(redo.WithStore(st))
	require.NoError(t, err)
	found := redo.Finding{Effect: redo.Applied, Evidence: "the evidence", By: "ana"}
	require.NoError(t, client.Settle(t.Context(), "refund:1", found))
	require.NoError(t, client.Close())
	require.NoError(t, st.Close())
	require.NoError(t, damageText(file, "the evidence"))
	require.Regexp(t, `(?m)^operation  refund:1  damaged .*store: record damaged`, outputOf(t, 0, "find", file, "refund:1"))
	page, stop := startConsole(t, file)
	require.Contains(t, get(t, page+"/find?q=refund:1"), "store: record damaged")
	status, errs := stop()
	require.Zero(t, status, errs)
}

// The command line has no keyring. It must not take a sealed operation for a usable one, or overwrite it.
func TestASealedOperationIsUnreadable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "payments.redo")
	st, err := boltstore.Open(file)
	require.NoError(t, err)
	keyring, err := store.NewKeyring(store.SealKeys{
		Seal: store.SealKey{ID: "2026-11", Secret: bytes.Repeat([]byte("s"), store.SealSecret)},
	})
	require.NoError(t, err)
	leaveUnknown(t, store.Sealed(st, keyring), "refund:1")
	require.NoError(t, st.Close())

	list := outputOf(t, exitFailed, "ops", "list", file)
	require.Regexp(t, `(?m)^refund:1  +\d+s .*unreadable: .*can't be read`, list)
	require.Contains(t, list, "1 of 1 records can't be read")
	require.Contains(t, outputOf(t, exitFailed, "ops", "list", file, "--json"), `"state": "unreadable"`)
	require.Contains(t, outputOf(t, 0, "ops", "show", file, "refund:1"), "it may be sealed")
	settle := []string{"ops", "settle", file, "refund:1", "--applied", "--evidence", "rf_1", "--by", "ana", "--yes"}
	require.Contains(t, outputOf(t, exitFailed, settle...), "can't be read")

	st, err = boltstore.Open(file)
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	client, err := redo.New(redo.WithStore(store.Sealed(st, keyring)))
	require.NoError(t, err)
	op, err := client.Find(t.Context(), "refund:1")
	require.NoError(t, err)
	require.Equal(t, "POST", op.Method)
}

// slowly replies to a question after something has happened.
type slowly struct {
	io.Reader
	before func()
}

func (s *slowly) Read(p []byte) (int, error) {
	if s.before != nil {
		s.before()
		s.before = nil
	}
	return s.Reader.Read(p)
}

// A question may wait for long. What the operator confirms is what the question showed.
func TestAnOperationThatBeganAfterTheQuestionIsLeftAlone(t *testing.T) {
	for _, command := range [][]string{{"forget"}, {"settle", "--applied", "--evidence", "rf_1", "--by", "ana"}} {
		t.Run(command[0], func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "payments.db")
			st, err := sqlitestore.Open(t.Context(), file, sqlitestore.WithMigrate())
			require.NoError(t, err)
			defer func() { require.NoError(t, st.Close()) }()
			client, err := redo.New(redo.WithStore(st))
			require.NoError(t, err)
			leaveUnknown(t, st, "refund:1")
			in := &slowly{strings.NewReader("yes\n"), func() {
				f := redo.Finding{Effect: redo.NotApplied, Evidence: "no refund", By: "bob"}
				require.NoError(t, client.Settle(t.Context(), "refund:1", f))
				leaveUnknown(t, st, "refund:1") // another operation of the same name
			}}
			var out bytes.Buffer
			args := append([]string{"ops", command[0], file, "refund:1"}, command[1:]...)
			require.Equal(t, exitFailed, run(t.Context(), args, terminal{in: in, out: &out, err: &out}), out.String())
			require.Contains(t, out.String(), "nothing was changed: since the question refund:1 has become another")
			op, err := client.Find(t.Context(), "refund:1")
			require.NoError(t, err)
			require.Equal(t, store.StatePending, op.State)
		})
	}
}

// JSON has all that the text has, except bodies.
func TestJSONHasTheHeaderOfARequestAndOfAResponse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "payments.redo")
	st, err := boltstore.Open(file)
	require.NoError(t, err)
	leaveUnknown(t, st, "refund:1")
	recordIn(t, st)
	require.NoError(t, st.Close())
	var op listed
	require.NoError(t, json.Unmarshal([]byte(outputOf(t, 0, "ops", "show", file, "refund:1", "--json")), &op))
	require.Equal(t, len("very-secret"), *op.BodySize)
	text := outputOf(t, 0, "records", "show", file, routeScope, "order-1", "--json")
	var rec record
	require.NoError(t, json.Unmarshal([]byte(text), &rec))
	require.Equal(t, []string{"/orders/o1"}, rec.Header["Location"])
	require.Equal(t, []string{masked}, rec.Header["Set-Cookie"])
	require.Equal(t, len(`{"id":"o1"}`), *rec.BodySize)
	require.NotContains(t, text, "very-secret")
}
