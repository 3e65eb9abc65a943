package sqltx_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/sqltx"
)

func TestFitsPacketCountsWhatADriverEscapes(t *testing.T) {
	const packet = 4 << 20
	for _, c := range []struct {
		text   string
		length int
		fits   bool
	}{
		{"a", packet - 8<<10, true}, {"a", packet - 8<<10 + 1, false}, {"a", packet, false}, {"a", 0, true},
		{"\x00", packet/2 - 4<<10, true}, {"\x00", packet/2 - 4<<10 + 1, false},
		{"'", packet/2 - 4<<10 + 1, false}, {"\\", packet/2 - 4<<10 + 1, false}, {"\n", packet/2 - 4<<10 + 1, false},
	} {
		err := sqltx.FitsPacket(bytes.Repeat([]byte(c.text), c.length), packet)
		if c.fits {
			require.NoError(t, err, "%d of %q", c.length, c.text)
			continue
		}
		require.ErrorIs(t, err, store.ErrInvalid, "%d of %q", c.length, c.text)
		require.ErrorContains(t, err, "max_allowed_packet of 4194304 bytes")
	}
	require.NoError(t, sqltx.FitsPacket(make([]byte, 1<<20), 0), "it is not known")
}
