package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/stage"
)

// TestMain lets the test binary be any of the processes, as the program itself is.
func TestMain(m *testing.M) {
	if stage.IsPart() {
		if err := stage.Play(play); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// By default a process sleeps for a second before it ends under -race.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// engines lists the engines that the tests run over.
var engines = []struct {
	name string
	url  func(*testing.T) string
}{
	{"files", func(*testing.T) string { return "" }},
	{"Postgres", postgres},
}

// postgres returns the URL of a Postgres that accepts connections. Without one the test is skipped.
func postgres(t *testing.T) string {
	url := cmp.Or(os.Getenv("REDO_TEST_POSTGRES"), "postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable")
	db, err := openDatabase(t.Context(), url)
	if err != nil && os.Getenv("REDO_TEST_REQUIRE") == "" {
		t.Skip(err)
	}
	require.NoError(t, err)
	db.Close()
	return url
}

func TestEveryOperationIsInBothLedgersOnceWhateverHappens(t *testing.T) {
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			var args []string
			if url := e.url(t); url != "" {
				args = []string{"-postgres", url}
			}
			var out strings.Builder
			err := tell(t.Context(), args, &out)
			text := out.String()
			t.Log(text)
			require.NoError(t, err)
			require.True(t, strings.HasSuffix(text,
				"\npayments=1 refunds=7 voids=1 producer_effects=9 consumer_effects=9 duplicates=0 lost=0\n"))
			for _, line := range []string{
				"and the response is lost: connection reset",
				"attempt 1: DEPENDENCY.unavailable, again in ",
				"attempt 2: RATE_LIMIT.exceeded, again in 1s",
				"a request is lost: connection reset",
				"and the response is cut off",
				"the consumer is killed (SIGKILL)",
				"refund:1138:belt complete: the producer replayed its first response",
				"refund:1138:socks is pending in its file",
				"the relay signs with both",
				": the old secret signed it",
				": the new secret signed it",
			} {
				require.Contains(t, text, line)
			}
			require.NotContains(t, text, "\x1b[", "plain text where there is no terminal")
			require.NotContains(t, text, "whsec_", "no secret is printed")
		})
	}
}

func TestTheCountFailsWhenALedgerIsWrong(t *testing.T) {
	made := func(number int, id, reference string) entry {
		return entry{
			Number: number, ID: id, Key: "key of " + id, Reference: reference, Payment: "payment_1", Amount: 100,
		}
	}
	told := func(number int, id, reference string) entry {
		e := made(number, id, reference)
		e.Key, e.Verified = eventID(id), oldSecret
		return e
	}
	wanted := []string{"payment:1", "refund:1"}
	payment, refund := made(1, "payment_1", "payment:1"), made(2, "refund_2", "refund:1")
	paid, refunded := told(1, "payment_1", "payment:1"), told(2, "refund_2", "refund:1")
	for _, c := range []struct {
		rule               string
		producer, consumer []entry
		want               string
		ok                 bool
	}{
		{
			"each once in each is right", []entry{payment, refund}, []entry{paid, refunded},
			"producer_effects=2 consumer_effects=2 duplicates=0 lost=0", true,
		},
		{
			"twice at the producer", []entry{payment, refund, refund}, []entry{paid, refunded},
			"producer_effects=3 consumer_effects=2 duplicates=1 lost=0", false,
		},
		{
			"twice at the consumer", []entry{payment, refund}, []entry{paid, refunded, refunded},
			"producer_effects=2 consumer_effects=3 duplicates=1 lost=0", false,
		},
		{
			"lost by the producer", []entry{payment}, []entry{paid},
			"producer_effects=1 consumer_effects=1 duplicates=0 lost=2", false,
		},
		{
			"lost on the way", []entry{payment, refund}, []entry{paid},
			"producer_effects=2 consumer_effects=1 duplicates=0 lost=1", false,
		},
		{
			"not asked for", []entry{payment, refund, made(3, "void_3", "void:1")}, []entry{paid, refunded},
			"producer_effects=3 consumer_effects=2 duplicates=0 lost=0", false,
		},
		{
			"out of order", []entry{payment, refund}, []entry{refunded, paid},
			"producer_effects=2 consumer_effects=2 duplicates=0 lost=0", false,
		},
		{
			"under another id", []entry{payment, refund}, []entry{paid, made(2, "refund_2", "refund:1")},
			"producer_effects=2 consumer_effects=2 duplicates=0 lost=0", false,
		},
		{"nothing proves nothing", nil, nil, "producer_effects=0 consumer_effects=0 duplicates=0 lost=4", false},
	} {
		t.Run(c.rule, func(t *testing.T) {
			got := count(wanted, c.producer, c.consumer)
			require.Equal(t, "payments=1 refunds=1 voids=0 "+c.want, got.String())
			require.Equal(t, c.ok, got.ok())
			var out strings.Builder
			require.Equal(t, c.ok, got.verdict(&out, stage.NewTimeline(&out, nil)) == nil)
		})
	}
}

func TestWithoutPostgresTheErrorSaysWhatToDo(t *testing.T) {
	err := tell(t.Context(), []string{"-postgres", "postgres://app:secret@127.0.0.1:1/db"}, &strings.Builder{})
	require.ErrorContains(t, err, "no Postgres responds at 127.0.0.1:1; start one")
	require.NotContains(t, err.Error(), "secret")
}
