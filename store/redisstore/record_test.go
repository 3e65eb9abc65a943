package redisstore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
)

// exampleAnswer is a settled record as a script answers it.
var exampleAnswer = "c" + "1795000000000009" + "redo1c-0000004+" + "1795000000000001042" + "00000000000000000" +
	"1795000000000001" + "01795000000000009" + strings.Repeat("p", len(store.Fingerprint{})) + "meta" + "result"

func TestParseAnswer(t *testing.T) {
	id := store.ID{Scope: "scope", Key: "key"}
	letter, r, err := parseAnswer(exampleAnswer, id)
	require.NoError(t, err)
	require.Equal(t, byte('c'), letter)
	require.Equal(t, store.Record{
		ID: id, State: store.StateComplete, Fence: 1795000000000001042,
		Fingerprint: store.Fingerprint([]byte(strings.Repeat("p", len(store.Fingerprint{})))),
		Meta:        []byte("meta"), Result: []byte("result"),
		CreatedAt: time.UnixMicro(1795000000000001), ExpiresAt: time.UnixMicro(1795000000000009), ReadAt: time.UnixMicro(1795000000000009),
	}, r)

	for rule, change := range map[string][2]string{
		"another format":            {"redo1", "redo2"},
		"no state":                  {"redo1c", "redo1x"},
		"a meta beyond the end":     {"0000004+", "0000011+"},
		"a length that is none":     {"0000004+", "00004.0+"},
		"a negative length":         {"0000004+", "-000004+"},
		"a rest that is no result":  {"0000004+", "0000004-"},
		"a fence that is none":      {"042", " 42"},
		"a fence of 64 bits":        {"1795000000000001042", "9223372036854775808"},
		"a fence beyond":            {"1795000000000001042", "9999999999999999999"},
		"a record that is cut off":  {exampleAnswer[40:], ""},
		"nothing after the letter":  {exampleAnswer[1:], ""},
		"nothing":                   {exampleAnswer, ""},
		"a creation that is signed": {"1795000000000001" + "01795", "+795000000000001" + "01795"},
	} {
		t.Run(rule+" is an error", func(t *testing.T) {
			text := strings.Replace(exampleAnswer, change[0], change[1], 1)
			require.NotEqual(t, exampleAnswer, text)
			_, _, err := parseAnswer(text, id)
			require.ErrorIs(t, err, ErrFormat)
			require.ErrorIs(t, err, store.ErrUnavailable)
		})
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(exampleAnswer)
	f.Add(strings.Replace(exampleAnswer, "0000004+", noMeta+"+", 1))
	f.Add(strings.Replace(exampleAnswer, "c1795", "a1795", 1))
	f.Add("-")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		letter, r, err := parseAnswer(text, store.ID{Key: "k"})
		switch {
		case err != nil && !errors.Is(err, ErrFormat):
			t.Errorf("%q: %v", text, err)
		case err == nil && letter != letterAbsent && letter != letterAcquired:
			if got := answerLead + headLength + len(r.Meta) + len(r.Result); got != len(text) {
				t.Errorf("%q: %d bytes of %d were read", text, got, len(text))
			}
		}
	})
}
