package sdks

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/taxonomy"
)

func TestTokenRequestDoesNotTakeTheName(t *testing.T) {
	for _, s := range []sdk{paypalSDK, googleSDK} {
		t.Run(s.name, func(t *testing.T) {
			p := newProvider(t, s)
			st := openStore(t)
			for range 2 { // each with a new token
				id, err := s.run(s.named(t.Context()), s.client(t, quick, redo.WithStore(st)), p.URL, false)
				require.NoError(t, err)
				require.Equal(t, "obj_1", id)
			}
			require.Equal(t, 2, p.asides())
			require.Len(t, p.requests(), 1)
		})
	}
}

// The twin: without a match the token request takes the name, and the operation itself is refused as another payload.
func TestNameForEveryRequestIsTakenByTheTokenRequest(t *testing.T) {
	for _, s := range []sdk{paypalSDK, googleSDK} {
		t.Run(s.name, func(t *testing.T) {
			p := newProvider(t, s)
			ctx := redo.WithOperation(t.Context(), operation)
			_, err := s.run(ctx, s.client(t, quick, redo.WithStore(openStore(t))), p.URL, false)
			require.Equal(t, taxonomy.PayloadMismatch, redo.CodeOf(err))
			require.Equal(t, 1, p.asides())
			require.Empty(t, p.requests())
		})
	}
}
