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

// Why a server, or a key on it, can't be used. Each is found with errors.Is beside store.ErrUnavailable.
var (
	// ErrEviction: the server may evict records, or doesn't tell whether it does.
	ErrEviction = errors.New("redisstore: maxmemory-policy is not known to be noeviction")
	// ErrFormat: a key of the store's holds something that is not this package's, is damaged, or is of a later
	// release. It was left as it is. A damaged record's error wraps store.ErrDamaged too.
	ErrFormat = errors.New("redisstore: unknown format")
)

var errClosed = fmt.Errorf("redisstore: closed: %w", store.ErrUnavailable)

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

// writeFailed is the error of a call that may have changed something: whatever is not known to have been refused, or
// never to have been sent, is unknown.
func writeFailed(ctx context.Context, err error) error {
	if refused := refusal(err); refused != nil {
		return refused
	}
	ended := ctx.Err()
	switch {
	case neverSent(err) && ended != nil:
		return ended
	case neverSent(err), ended == nil && errors.Is(err, context.Canceled): // see othersEnd
		return unavailable(err)
	case ended != nil && !errors.Is(err, ended):
		return fmt.Errorf("redisstore: %w: %w: %w", store.ErrUnknown, ended, err)
	default:
		return fmt.Errorf("redisstore: %w: %w", store.ErrUnknown, err)
	}
}

// at names the ID in an error about what its key holds.
func at(id store.ID, err error) error {
	if !errors.Is(err, ErrFormat) {
		return err
	}
	return fmt.Errorf("redisstore: the record of %v: %w", id, err)
}

func unavailable(err error) error {
	return fmt.Errorf("redisstore: %w: %w", store.ErrUnavailable, err)
}

// neverSent holds for what fails before there is a connection. A connection that broke, or a client that was closed
// meanwhile, may have taken the command along.
func neverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" || errors.Is(err, rueidis.ErrNoAddr) || errors.Is(err, rueidis.ErrNoSlot)
}

// refusal is the error of a command that the server answered with an error, nil when it did not answer. The scripts
// write nothing before the last point at which a server can refuse them.
func refusal(err error) error {
	answer, ok := rueidis.IsRedisErr(err)
	if !ok {
		return nil
	}
	// The first word of an error reply is its code; it is the protocol's only way to tell errors apart.
	switch code, _, _ := strings.Cut(answer.Error(), " "); code {
	case "REDODAMAGED":
		return fmt.Errorf("%w: %w: %w: %w", store.ErrDamaged, ErrFormat, store.ErrUnavailable, answer)
	case "WRONGTYPE", "REDOFORMAT":
		return fmt.Errorf("%w: %w: %w", ErrFormat, store.ErrUnavailable, answer)
	default:
		return unavailable(answer)
	}
}
