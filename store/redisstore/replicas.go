package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"
	"github.com/redo-go/redo/store"
)

// maxReplicaTimeout bounds how long WAIT holds up a call.
const maxReplicaTimeout = time.Minute

// WithReplicas makes Reserve and Complete wait until n replicas have acknowledged the write, by the command WAIT.
// Zero, the default, waits for none. A lazy outcome and a call that writes nothing, such as a replay, do not wait. It
// narrows the loss in a failover and does not close it: see docs/failover.md.
//
// The timeout is from 1 ms to 1 minute, and is rounded up to milliseconds. If fewer replicas acknowledge in time,
// the call returns store.ErrUnknown. Find then returns the primary's record, which may differ from the replicas'.
// Before Reserve returns that error, it gives its claim up, so that the ID is not blocked. It releases a record
// that it acquired, and ends the lease of a record that it took over. That record has no owner then: store.Held
// reports false.
//
// It costs one more round trip for Reserve and none for Complete, beside the time of the replicas. WAIT counts the
// writes of its connection, so each call takes a separate connection. If the context can be canceled but has no
// deadline, rueidis takes another round trip to clean the connection up.
func WithReplicas(n int, timeout time.Duration) Option {
	return option(func(c *config) error {
		if n < 0 {
			return fmt.Errorf("redisstore: %w: the number of replicas is %d, it must not be negative",
				store.ErrInvalid, n)
		}
		if n > 0 && (timeout < time.Millisecond || timeout > maxReplicaTimeout) {
			return fmt.Errorf("redisstore: %w: the timeout of replicas is %v, it must be from %v to %v",
				store.ErrInvalid, timeout, time.Millisecond, maxReplicaTimeout)
		}
		c.replicas, c.replicaTimeout = n, timeout
		return nil
	})
}

// dedicated calls f with a separate connection. Such a connection follows no redirection of a cluster: the WAIT
// would go to another node than the write. So dedicated calls f again until the client has learned of the slot's
// move.
func (s *Store) dedicated(ctx context.Context, f func(conn rueidis.DedicatedClient) error) error {
	for a := (attempts{}); ; {
		t, err := within(ctx, s.take, func(t taken) { t.release() })
		if err != nil {
			return err
		}
		err = f(t.conn)
		_, _ = within(ctx, t.giveBack, func(struct{}) {})
		if !moving(err) || !a.rest(ctx, s) {
			return err
		}
	}
}

// A taken connection is separate until it is given back. rueidis dials for it, and cleans it up, without a context.
type taken struct {
	conn    rueidis.DedicatedClient
	release func()
}

func (s *Store) take() (t taken) {
	t.conn, t.release = s.client.Dedicate()
	return t
}

func (t taken) giveBack() (none struct{}) {
	t.release()
	return none
}

// reserveReplicated is Reserve with its keys and arguments.
func (s *Store) reserveReplicated(ctx context.Context, c store.Claim, keys, args []string) (g store.Grant, err error) {
	err = s.dedicated(ctx, func(conn rueidis.DedicatedClient) (err error) {
		g, err = readGrant(ctx, s.runOnce(ctx, conn, reserveScript, keys, args), c)
		if err != nil || !g.Verdict.Owned() {
			return err
		}
		if err = s.acknowledged(ctx, conn.Do(ctx, s.waitCommand(conn))); err != nil {
			s.giveUp(ctx, keys, g)
		}
		return err
	})
	if err != nil {
		return store.Grant{}, err
	}
	return g, nil
}

const giveUpTimeout = time.Second

// giveUp lets others claim the ID, because the caller learns only that the claim is unknown. The outcome of giveUp
// itself changes nothing. After a take-over the record stays, since its work may have begun before. The caller's
// context may have ended, and its connection may still wait for replicas.
func (s *Store) giveUp(ctx context.Context, keys []string, g store.Grant) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveUpTimeout)
	defer cancel()
	sc, args := releaseScript, []string{fenceText(g.Lease.Fence)}
	if g.Verdict == store.TakenOver {
		meta := g.Record.Meta
		sc, args = extendScript, append(args, "0", string(appendMetaLength(nil, meta)), string(meta), "00")
	}
	_ = s.runOnce(ctx, s.client, sc, keys, args)
}

// completeReplicated runs the script and the WAIT in one round trip.
func (s *Store) completeReplicated(ctx context.Context, id store.ID, keys, args []string) error {
	return s.dedicated(ctx, func(conn rueidis.DedicatedClient) error {
		got := conn.DoMulti(ctx, completeScript.bySum(conn, keys, args), s.waitCommand(conn))
		if unloaded(got[0]) {
			got = conn.DoMulti(ctx, completeScript.whole(conn, keys, args), s.waitCommand(conn))
		}
		if err := settled(ctx, id, got[0]); err != nil {
			return err
		}
		return s.acknowledged(ctx, got[1])
	})
}

func (s *Store) waitCommand(b doer) rueidis.Completed {
	ms := (s.replicaTimeout + time.Millisecond - 1) / time.Millisecond
	return b.B().Wait().Numreplicas(int64(s.replicas)).Timeout(int64(ms)).Build()
}

// acknowledged reads the reply to a WAIT. The write before it was made, so that every error is store.ErrUnknown.
func (s *Store) acknowledged(ctx context.Context, r rueidis.RedisResult) error {
	n, err := r.AsInt64()
	ended := ctx.Err()
	switch {
	case err == nil && n >= int64(s.replicas):
		return nil
	case err == nil:
		err = fmt.Errorf("%d replicas acknowledged within %v, want %d", n, s.replicaTimeout, s.replicas)
	case ended != nil && !errors.Is(err, ended):
		err = fmt.Errorf("%w: %w", ended, err)
	}
	return fmt.Errorf("redisstore: %w: %w", store.ErrUnknown, err)
}
