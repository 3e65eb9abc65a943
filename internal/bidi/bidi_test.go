package bidi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestControlsOfDirectionAreVisible(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "",
		"refund:ch_9ab":                  "refund:ch_9ab",
		"refund\u202Etxt.exe":            `refund\u202etxt.exe`,
		"\u061C\u200E\u200F\u2066\u2069": `\u061c\u200e\u200f\u2066\u2069`,
		"Größe 👩‍🔧 שלום":                 "Größe 👩‍🔧 שלום", // joiners and letters stay
		"a\xE2\x80":                      "a\xE2\x80",
		"5 > 3 \u202E":                   `5 > 3 \u202e`,
		"1 < 2 \u202E":                   `1 < 2 \u202e`,
	} {
		require.Equal(t, want, string(Escape([]byte(text))), "%q", text)
	}
	doc, err := json.Marshal("a\u202Eb")
	require.NoError(t, err)
	var back string
	require.NoError(t, json.Unmarshal(Escape(doc), &back))
	require.Equal(t, "a\u202Eb", back)
}

func TestTagsOfAPageStayAsTheyAre(t *testing.T) {
	const page = "<input value=\"a\u202Eb\"><td>a\u202Eb &lt; \u202E</td>"
	require.Equal(t, "<input value=\"a\u202Eb\"><td>a\\u202eb &lt; \\u202e</td>", string(EscapeHTML([]byte(page))))
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestWriterReportsWhatItWasGiven(t *testing.T) {
	var b bytes.Buffer
	n, err := fmt.Fprint(Writer{&b}, "a\u202Eb")
	require.NoError(t, err)
	require.Equal(t, len("a\u202Eb"), n)
	require.Equal(t, `a\u202eb`, b.String())
	_, err = Writer{full{}}.Write([]byte("x"))
	require.EqualError(t, err, "full")
}
