package inbox

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestANoteIsReadAsItWasWritten(t *testing.T) {
	for _, n := range []note{
		{payload: []byte{}},
		{attempts: 1, payload: []byte{}},
		{attempts: 2, err: "no", payload: []byte("p"), unknown: true},
		{attempts: 1 << 31, received: time.Unix(0, -5).UTC(), processed: time.Unix(1757937600, 1).UTC(), err: "é", payload: []byte("\x00payload")},
	} {
		got, err := decodeNote(n.encode())
		require.NoError(t, err)
		require.Equal(t, n, got)
	}
}

// The bytes are what other processes have written: they may not change without another version.
func TestTheBytesOfANoteAreFixed(t *testing.T) {
	n := note{attempts: 3, received: time.Unix(0, 1), err: "no", payload: []byte("p")}
	require.Equal(t, "\x01\x03\x02\x00\x02nop", string(n.encode()))
	n.unknown = true
	require.Equal(t, "\x02\x03\x02\x00\x02nop", string(n.encode()))
}

func TestADamagedNoteIsRefused(t *testing.T) {
	whole := note{attempts: 300, received: time.Unix(1, 0), processed: time.Unix(2, 0), err: "error"}.encode()
	for i := range whole {
		_, err := decodeNote(whole[:i])
		require.ErrorIs(t, err, errNote, "%d bytes of it", i)
	}
	whole[0] = 3
	_, err := decodeNote(whole)
	require.ErrorIs(t, err, errNote)
}

// What is read is either refused, or is a note that is read the same way once more.
func FuzzDecodeNote(f *testing.F) {
	f.Add(note{}.encode())
	f.Add(note{attempts: 3, received: time.Unix(1, 0), processed: time.Unix(2, 0), err: "e", payload: []byte("p")}.encode())
	f.Add(note{attempts: 3, err: "e", payload: []byte("p"), unknown: true}.encode())
	f.Add([]byte("\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := decodeNote(b)
		if err != nil {
			require.ErrorIs(t, err, errNote)
			return
		}
		again, err := decodeNote(n.encode())
		require.NoError(t, err)
		require.Equal(t, n, again)
	})
}
