package main

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/stage"
)

// TestMain lets the test binary be the service and the client, as the program itself is.
func TestMain(m *testing.M) {
	if stage.IsPart() {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestEveryOperationTakesEffectOnceWhateverHappens(t *testing.T) {
	var out strings.Builder
	require.NoError(t, tell(&out), "%s", &out)
	text := out.String()
	t.Log(text)
	require.True(t, strings.HasSuffix(text, "\noperations=8 effects=8 duplicates=0 lost=0\n"))
	for _, line := range []string{
		"and the response is lost: connection reset",
		"503 Service Unavailable (DEPENDENCY.unavailable), again in ",
		"429 Too Many Requests (RATE_LIMIT.exceeded), again in 1s",
		"CONFLICT.idempotency.payload_mismatch, nothing was sent",
		"VALIDATION.amount, effect not applied",
		"the client process is killed (SIGKILL)",
		"found refund:1138:gloves pending in its file",
		"the service process is killed (SIGKILL)",
		"up, with 7 entries in its ledger",
	} {
		require.Contains(t, text, line)
	}
	require.Equal(t, 10, heard(text, "refund:1138:scarf complete")+heard(text, "refund:1138:scarf was complete"),
		"each of the ten duplicates gets a response, from the service or from its own file")
	require.Equal(t, 1, strings.Count(text, "refund rf_4 of"), "and one of them runs")
	require.NotContains(t, text, "\x1b[", "plain text where there is no terminal")
	keys := regexp.MustCompile(`refund:1138:gloves: attempt 1, key (\S+)`).FindAllStringSubmatch(text, -1)
	require.Len(t, keys, 2, "one attempt before the kill, one after it")
	require.Equal(t, keys[0][1], keys[1][1], "the restarted client sends the same key")
}

// times matches the end of a line that replaces several equal ones.
var times = regexp.MustCompile(`\((\d+) times\)$`)

// heard returns the number of times that something was reported.
func heard(text, what string) int {
	n := 0
	for line := range strings.Lines(text) {
		if !strings.Contains(line, what) {
			continue
		}
		if m := times.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			more, _ := strconv.Atoi(m[1])
			n += more
			continue
		}
		n++
	}
	return n
}

func TestTheCountFailsWhenTheLedgerIsWrong(t *testing.T) {
	entry := func(reference string) Entry { return Entry{Reference: reference} }
	for name, c := range map[string]struct {
		wanted  []string
		entries []Entry
		want    string
		ok      bool
	}{
		"each once": {
			[]string{"a", "b"}, []Entry{entry("a"), entry("b")}, "operations=2 effects=2 duplicates=0 lost=0", true,
		},
		"one twice": {
			[]string{"a", "b"}, []Entry{entry("a"), entry("b"), entry("b")},
			"operations=2 effects=3 duplicates=1 lost=0", false,
		},
		"one lost": {[]string{"a", "b"}, []Entry{entry("a")}, "operations=2 effects=1 duplicates=0 lost=1", false},
		"both together": {
			[]string{"a", "b"}, []Entry{entry("a"), entry("a")}, "operations=2 effects=2 duplicates=1 lost=1", false,
		},
		"not asked for": {
			[]string{"a"}, []Entry{entry("a"), entry("z")}, "operations=1 effects=2 duplicates=0 lost=0", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := count(c.wanted, c.entries)
			require.Equal(t, c.want, got.String())
			require.Equal(t, c.ok, got.ok())
			var out strings.Builder
			if err := verdict(&out, stage.NewTimeline(&out, nil), got, c.entries); c.ok {
				require.NoError(t, err)
			} else {
				require.Error(t, err)
			}
		})
	}
}
