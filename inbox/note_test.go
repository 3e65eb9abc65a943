package inbox

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/store"
)

func TestANoteIsReadAsItWasWritten(t *testing.T) {
	for _, n := range []note{
		{},
		{Attempts: 1},
		{Attempts: 2, State: dead, Err: "no", Kept: true, payload: []byte("p")},
		{State: resting, Kept: true, payload: []byte{}},
		{
			Attempts: math.MaxInt32, Received: time.Unix(0, -5).UTC(), Changed: time.Unix(1757937600, 1).UTC(),
			Err: "é\n", Kept: true, payload: []byte("\x00pay\nload"),
		},
	} {
		got, err := decodeNote(n.encode())
		require.NoError(t, err)
		n.Version = noteVersion
		require.Equal(t, n, got)
	}
}

// Other processes have written these bytes. They may not change without another version.
func TestTheBytesOfANoteAreFixed(t *testing.T) {
	n := note{Attempts: 3, Received: time.Unix(0, 1).UTC(), Err: "no"}
	want := `{"v":3,"attempts":3,"received":"1970-01-01T00:00:00.000000001Z","error":"no"}` + "\n"
	require.Equal(t, want, string(n.encode()))
	n = note{State: dead, Attempts: 3, Kept: true, payload: []byte("p")}
	require.Equal(t, `{"v":3,"state":"dead","kept":true,"attempts":3}`+"\np", string(n.encode()))
}

func TestADamagedNoteIsRefused(t *testing.T) {
	whole := note{Attempts: 300, Received: time.Unix(1, 0), Changed: time.Unix(2, 0), Err: "error"}.encode()
	for i := range whole {
		_, err := decodeNote(whole[:i])
		require.ErrorIs(t, err, errNote, "%d bytes of it", i)
	}
	for _, b := range []string{`{"v":4}` + "\n", `{"v":3,"attempts":"1"}` + "\n", string(whole) + "p"} {
		_, err := decodeNote([]byte(b))
		require.ErrorIs(t, err, errNote, b)
	}
}

// The longest error is one that JSON must escape.
func TestTheLargestNoteFitsARecord(t *testing.T) {
	n := note{
		State: dead, Kept: true, Attempts: math.MaxInt32, Received: time.Unix(1e9, 1), Changed: time.Unix(1e9, 1),
		Err: strings.Repeat("\x01", 1<<20), payload: make([]byte, MaxPayload),
	}
	require.LessOrEqual(t, len(n.encode()), store.MaxMeta)
}

// A note is either refused, or read in the same way once more.
func FuzzDecodeNote(f *testing.F) {
	f.Add(note{}.encode())
	f.Add(note{Attempts: 3, Received: time.Unix(1, 0), Changed: time.Unix(2, 0), Err: "e"}.encode())
	f.Add(note{State: resting, Attempts: 3, Kept: true, payload: []byte("p")}.encode())
	f.Add(note{State: dead, Attempts: 3, Err: "e"}.encode())
	f.Add([]byte(`{"v":3,"attempts":-1,"received":"x"}` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := decodeNote(b)
		if err != nil {
			require.ErrorIs(t, err, errNote)
			return
		}
		n.Err = wire.Clip(n.Err, maxError)
		again, err := decodeNote(n.encode())
		require.NoError(t, err)
		require.True(t, n.Received.Equal(again.Received) && n.Changed.Equal(again.Changed))
		n.Received, n.Changed = again.Received, again.Changed
		require.Equal(t, n, again)
	})
}
