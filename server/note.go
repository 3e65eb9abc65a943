package server

import (
	"errors"
	"fmt"
)

// A note is the meta of a pending record. It holds the facts that the next owner of the key needs.
type note struct {
	applied    bool   // the handler has called Applied
	checkpoint []byte // the meta of the handler's Checkpoint; nil if there was none
}

// The envelope of a note, version 1: the version (one byte, 1), the flags (one byte), and the checkpoint. An empty
// meta is the zero note.
const (
	noteV1 = 1

	noteApplied    = 1 << 0
	noteCheckpoint = 1 << 1
)

// errNote means that a note was written by a newer version of this package, or is damaged.
var errNote = errors.New("server: the pending record has a note of another version")

func (n note) encode() []byte {
	flags := byte(0)
	if n.applied {
		flags |= noteApplied
	}
	if n.checkpoint != nil {
		flags |= noteCheckpoint
	}
	return append([]byte{noteV1, flags}, n.checkpoint...)
}

func decodeNote(meta []byte) (note, error) {
	if len(meta) == 0 {
		return note{}, nil
	}
	if len(meta) == 1 || meta[0] != noteV1 || meta[1]&^(noteApplied|noteCheckpoint) != 0 {
		return note{}, fmt.Errorf("%w: it begins with %x", errNote, meta[:min(2, len(meta))])
	}
	n := note{applied: meta[1]&noteApplied != 0}
	switch {
	case meta[1]&noteCheckpoint != 0:
		n.checkpoint = meta[2:]
	case len(meta) > 2:
		return note{}, fmt.Errorf("%w: %d bytes follow it", errNote, len(meta)-2)
	}
	return n, nil
}
