package sqltx

import (
	"bytes"
	"fmt"

	"github.com/redo-go/redo/store"
)

// packetRest is the space for the rest of a statement: its text, and an ID whose bytes are escaped.
const packetRest = 8 << 10

// FitsPacket returns an error that wraps store.ErrInvalid if a statement with the result may be too long for the
// server. The parameter packet is max_allowed_packet of MySQL or MariaDB, in bytes. Zero means that it is not known,
// and any result fits. A driver may escape bytes of the result, which doubles their length.
func FitsPacket(result []byte, packet int64) error {
	if packet == 0 || 2*int64(len(result)) <= packet-packetRest {
		return nil
	}
	size := int64(len(result))
	for _, b := range []byte("\x00\n\r\x1a'\"\\") {
		size += int64(bytes.Count(result, []byte{b}))
	}
	if size <= packet-packetRest {
		return nil
	}
	return fmt.Errorf("sqltx: %w: a result of %d bytes does not fit the server's max_allowed_packet of %d bytes",
		store.ErrInvalid, len(result), packet)
}
