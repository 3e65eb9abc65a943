package boltoutbox

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/outbox"
)

// An entry of any bytes, with or without a right checksum, is decoded or refused as corrupt. A decoded entry is decoded
// to the same values after it was written again.
func FuzzEntry(f *testing.F) {
	var q file
	f.Add(q.encode(state{ID: "e1", Type: "paid", Destination: "https://a.example", Attempts: 2, Due: 7}), false)
	f.Add(q.encode(failure{At: 1, Code: "timeout", Status: 504, Response: "late"}), false)
	f.Add(encodeBody(outbox.Event{Header: map[string][]string{"A": {"b"}}, Payload: []byte("{}\n")}), false)
	f.Add([]byte(`{"id":"e1","fence":-1}`), true)
	f.Add([]byte("null\n"), true)
	f.Add([]byte(`{"A":[1]}`), true)
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		if seal {
			b = sealed(b)
		}
		var q file
		var s, sameState state
		if err := decode(b, &s); err == nil {
			require.NoError(t, decode(q.encode(s), &sameState))
			require.Equal(t, s, sameState)
		} else {
			require.ErrorIs(t, err, ErrCorrupt)
		}
		var was, sameFailure failure
		if err := decode(b, &was); err == nil {
			require.NoError(t, decode(q.encode(was), &sameFailure))
			require.Equal(t, was, sameFailure)
		} else {
			require.ErrorIs(t, err, ErrCorrupt)
		}
		h, payload, err := decodeBody(b)
		if err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
			return
		}
		sameHeader, samePayload, err := decodeBody(encodeBody(outbox.Event{Header: h, Payload: payload}))
		require.NoError(t, err)
		require.Equal(t, h, sameHeader)
		require.Equal(t, string(payload), string(samePayload))
		require.NoError(t, q.err)
	})
}
