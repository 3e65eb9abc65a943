package redisstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/rueidis"
	"github.com/redo-go/redo/store"
)

// Check implements store.Checker. It returns nil if the server replies, holds records of this format, and has the
// maxmemory-policy noeviction unless AllowEviction was given. On a cluster every node that replies must have it,
// replicas too, since they may be promoted. Check writes only if the server has no layout yet. So it does not detect a
// server that is full, or that refuses writes for another reason.
func (s *Store) Check(ctx context.Context) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if err := s.checkPolicy(ctx); err != nil {
		return err
	}
	return s.join(ctx, false)
}

func (s *Store) checkPolicy(ctx context.Context) error {
	unreached := fmt.Errorf("redisstore: the client knows no server: %w", store.ErrUnavailable)
	replied := false
	for addr, node := range s.client.Nodes() {
		var policy string
		err := s.persist(ctx, func() (err error) {
			policy, err = maxmemoryPolicy(ctx, node)
			return err
		})
		switch {
		case err != nil && refusal(err) == nil:
			unreached = readFailed(ctx, err)
			continue
		case s.allowEviction && (err == nil || forbidden(err)):
		case forbidden(err):
			return fmt.Errorf("%w: %s allows neither CONFIG GET nor INFO; set it there and use AllowEviction: %w: %w",
				ErrEviction, addr, store.ErrUnavailable, err)
		case err != nil:
			return readFailed(ctx, err)
		case policy != "noeviction": // under any other one a full server deletes records instead of refusing writes
			return fmt.Errorf("%w: at %s it is %q, so that records could vanish and work run twice: %w",
				ErrEviction, addr, policy, store.ErrUnavailable)
		}
		replied = true
	}
	if !replied {
		return unreached
	}
	return nil
}

// maxmemoryPolicy reads the setting in two ways, because managed services tend to forbid the first. rueidis does not
// repeat commands that are built so.
func maxmemoryPolicy(ctx context.Context, n doer) (string, error) {
	set, err := n.Do(ctx, n.B().Arbitrary("CONFIG", "GET", "maxmemory-policy").Build()).AsStrMap()
	if policy := set["maxmemory-policy"]; err == nil && policy != "" {
		return policy, nil
	}
	if err != nil && !forbidden(err) {
		return "", err
	}
	info, err := n.Do(ctx, n.B().Arbitrary("INFO", "memory").Build()).ToString()
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(info) {
		if policy, ok := strings.CutPrefix(line, "maxmemory_policy:"); ok {
			return strings.TrimSpace(policy), nil
		}
	}
	return "not shown", nil
}

// forbidden reports whether the server refuses the command to this user, or does not have it.
func forbidden(err error) bool {
	reply, ok := rueidis.IsRedisErr(err)
	if !ok {
		return false
	}
	// rueidis leaves the code ERR out, which an unknown command has. Any other code is in upper case.
	code, _, _ := strings.Cut(reply.Error(), " ")
	return code == "NOPERM" || code != strings.ToUpper(code)
}
