package pgoutbox

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// A header that any program has written is read or refused. A header that was read is read equally once more.
func FuzzHeader(f *testing.F) {
	for _, text := range []string{
		`{}`, `{"Content-Type":["text/plain"],"B":[]}`, `{"":null}`, `null`, `{"A":"b"}`, `[`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		h, err := decodeHeader(text)
		if err != nil {
			require.Nil(t, h)
			return
		}
		require.True(t, json.Valid([]byte(text)))
		written, err := encodeHeader(h)
		require.NoError(t, err)
		again, err := decodeHeader(written)
		require.NoError(t, err)
		if len(h) > 0 {
			require.Equal(t, h, again)
		} else {
			require.Empty(t, again)
		}
	})
}

func TestEventWithoutAHeaderStaysSo(t *testing.T) {
	text, err := encodeHeader(nil)
	require.NoError(t, err)
	h, err := decodeHeader(text)
	require.NoError(t, err)
	require.Nil(t, h)
}
