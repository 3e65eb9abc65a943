package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"
	"github.com/redo-go/redo/store"
)

// maxReplicaTimeout bounds what a caller may be held up for.
const maxReplicaTimeout = time.Minute

// WithReplicas lets Reserve that acquires or takes over, and Complete that is not lazy, return only after n replicas of
// the primary have acknowledged the write, by the engine's command WAIT. Zero, the default, asks for none.
//
// It narrows what a failover can lose and does not close it: a replica acknowledges what is in its memory, and which
// replica is promoted is not decided by who acknowledged. Nor is a renewed lease waited for.
//
// Where fewer acknowledge within the timeout, which is from 1 ms to 1 minute and is rounded up to milliseconds, the call
// returns store.ErrUnknown. Find then tells what the primary holds, and not what the replicas do. A reservation is given up
// before that, so that its ID is not blocked: one that was acquired is released, one that was taken over has no lease left.
// Whatever writes nothing, a replay say, is not held up.
//
// It costs one round trip more for Reserve and none for Complete, whose command goes with its WAIT, beside what the
// replicas take. WAIT speaks of its own connection's writes, so that each such call has a connection to itself
// meanwhile; the client must be able to hand one out, as every [rueidis.Client] is. Where the context can be canceled but has no
// deadline, rueidis takes another round trip to clean the connection up.
func WithReplicas(n int, timeout time.Duration) Option {
	return option(func(c *config) error {
		if n < 0 {
			return fmt.Errorf("redisstore: %w: the number of replicas is %d, it must not be negative", store.ErrInvalid, n)
		}
		if n > 0 && (timeout < time.Millisecond || timeout > maxReplicaTimeout) {
			return fmt.Errorf("redisstore: %w: the timeout of replicas is %v, it must be from %v to %v", store.ErrInvalid, timeout, time.Millisecond, maxReplicaTimeout)
		}
		c.replicas, c.replicaTimeout = n, timeout
		return nil
	})
}

// A dedicater hands out a connection, until the function is called.
type dedicater interface {
	Dedicate() (rueidis.DedicatedClient, func())
}

var errNotDedicated = fmt.Errorf("redisstore: %w: the client hands out no connections, which WithReplicas needs", store.ErrInvalid)

// onOneLine calls f with a connection of its own. Unlike the client's other calls such a connection follows no
// redirection of a cluster, which could leave a WAIT behind at another node: f is called anew until the client has learned of
// the move.
func (s *Store) onOneLine(ctx context.Context, f func(line rueidis.DedicatedClient) error) error {
	once := func() error {
		line, release := s.client.(dedicater).Dedicate()
		defer release()
		return f(line)
	}
	err := once()
	for pause := firstPause; moving(err) && s.rest(ctx, pause); pause *= 2 {
		err = once()
	}
	return err
}

// reserveReplicated is Reserve with its keys and arguments.
func (s *Store) reserveReplicated(ctx context.Context, c store.Claim, keys [2]string, args []string) (g store.Grant, err error) {
	err = s.onOneLine(ctx, func(line rueidis.DedicatedClient) (err error) {
		if g, err = readGrant(ctx, s.runOnce(ctx, line, reserveScript, keys[:], args), c); err != nil || !g.Verdict.Owned() {
			return err
		}
		err = s.acknowledged(ctx, line.Do(ctx, s.waitCommand(line)))
		if err != nil {
			s.giveUp(ctx, line, g)
		}
		return err
	})
	if err != nil {
		return store.Grant{}, err
	}
	return g, nil
}

// giveUp lets others claim what nobody will work on: the caller is told that the claim is unknown.
func (s *Store) giveUp(ctx context.Context, line rueidis.DedicatedClient, g store.Grant) {
	sc, last := releaseScript, s.layout.channel
	if g.Verdict == store.TakenOver {
		sc, last = extendScript, "0" // no lease: the work may have been begun before, which must stay visible
	}
	keys, id := s.layout.record(g.Lease.ID)
	args := []string{id, fenceText(g.Lease.Fence), last}
	_ = s.runOnce(ctx, line, sc, keys[:], args) // whatever came of it, the claim is unknown
}

// completeReplicated runs the script and the WAIT in one round trip.
func (s *Store) completeReplicated(ctx context.Context, keys [2]string, args []string) error {
	return s.onOneLine(ctx, func(line rueidis.DedicatedClient) error {
		got := line.DoMulti(ctx, completeScript.bySum(line, keys[:], args), s.waitCommand(line))
		if forgotten(got[0]) {
			got = line.DoMulti(ctx, completeScript.whole(line, keys[:], args), s.waitCommand(line))
		}
		if err := settled(ctx, got[0]); err != nil {
			return err
		}
		return s.acknowledged(ctx, got[1])
	})
}

func (s *Store) waitCommand(b builder) rueidis.Completed {
	ms := (s.replicaTimeout + time.Millisecond - 1) / time.Millisecond
	return b.B().Wait().Numreplicas(int64(s.replicas)).Timeout(int64(ms)).Build()
}

// acknowledged reads the answer to a WAIT. The write before it was made, so that nothing here is a refusal.
func (s *Store) acknowledged(ctx context.Context, r rueidis.RedisResult) error {
	n, err := r.AsInt64()
	ended := ctx.Err()
	switch {
	case err == nil && n >= int64(s.replicas):
		return nil
	case err == nil:
		return fmt.Errorf("redisstore: %w: acknowledged by %d replicas within %v, %d were asked for", store.ErrUnknown, n, s.replicaTimeout, s.replicas)
	case ended != nil && !errors.Is(err, ended):
		return fmt.Errorf("redisstore: %w: %w: %w", store.ErrUnknown, ended, err)
	}
	return fmt.Errorf("redisstore: %w: %w", store.ErrUnknown, err)
}
