package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/rueidis"
	"github.com/redo-go/redo/store"
)

// Errors about a server or a key on it. Each wraps store.ErrUnavailable too.
var (
	// ErrEviction: the server may evict records, or does not show whether it does.
	ErrEviction = errors.New("redisstore: maxmemory-policy is not known to be noeviction")
	// ErrFormat: a key of the store holds a value that this release can't read. The value is unchanged. The error
	// names the format of a record or a layout of another release. The error of a damaged record wraps
	// store.ErrDamaged too.
	ErrFormat = errors.New("redisstore: unknown format")
)

var (
	errClosed = fmt.Errorf("redisstore: closed: %w", store.ErrUnavailable)
	// errLayout: a script refused to create a record in a shard without the layout's mark, or to report its absence.
	errLayout = fmt.Errorf("redisstore: %w: the layout of the shard is another", store.ErrUnavailable)
)

// readFailed is the error of a call that changes nothing.
func readFailed(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	if refused := refusal(err); refused != nil {
		return refused
	}
	return unavailable(err)
}

// writeFailed is the error of a call that may have changed something. The outcome is unknown unless the server refused
// the call or the call was never sent.
func writeFailed(ctx context.Context, err error) error {
	if refused := refusal(err); refused != nil {
		return refused
	}
	ended := ctx.Err()
	switch {
	case neverSent(err) && ended != nil:
		return ended
	case neverSent(err), ended == nil && errors.Is(err, context.Canceled): // see endedByOther
		return unavailable(err)
	case ended != nil && !errors.Is(err, ended):
		return fmt.Errorf("redisstore: %w: %w: %w", store.ErrUnknown, ended, err)
	default:
		return fmt.Errorf("redisstore: %w: %w", store.ErrUnknown, err)
	}
}

// at names the ID in an error about the content of its key.
func at(id store.ID, err error) error {
	if !errors.Is(err, ErrFormat) {
		return err
	}
	return fmt.Errorf("redisstore: the record of %v: %w", id, err)
}

func unavailable(err error) error {
	return fmt.Errorf("redisstore: %w: %w", store.ErrUnavailable, err)
}

// neverSent reports whether a call failed before there was a connection. If a connection broke, or the client was
// closed meanwhile, the server may have received the command.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" ||
		errors.Is(err, rueidis.ErrNoAddr) || errors.Is(err, rueidis.ErrNoSlot)
}

// refusal is the error of a command to which the server replied with an error. It returns nil if there was no reply.
// After a script has begun to write, the server does not refuse it.
func refusal(err error) error {
	reply, ok := rueidis.IsRedisErr(err)
	if !ok {
		return nil
	}
	// The first word of an error reply is its code. The protocol has no other way to tell errors apart.
	switch code, _, _ := strings.Cut(reply.Error(), " "); code {
	case "REDODAMAGED":
		return fmt.Errorf("%w: %w: %w: %w", store.ErrDamaged, ErrFormat, store.ErrUnavailable, reply)
	case "WRONGTYPE", "REDOFORMAT":
		return fmt.Errorf("%w: %w: %w", ErrFormat, store.ErrUnavailable, reply)
	case "REDOLAYOUT":
		return errLayout
	default:
		return unavailable(reply)
	}
}
