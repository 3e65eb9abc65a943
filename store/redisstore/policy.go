package redisstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/rueidis"
	"github.com/redo-go/redo/store"
)

// noEviction is the only maxmemory-policy under which a full server refuses writes instead of deleting records.
const noEviction = "noeviction"

// Check implements store.Checker: it returns nil when the server answers and, unless AllowEviction was given, has the
// maxmemory-policy noeviction. On a cluster every node that answers must have it, replicas too, since they may be promoted.
// It writes nothing, and so does not tell of a server that is full, or takes no writes for another reason.
func (s *Store) Check(ctx context.Context) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	var unreached error
	answered := false
	for addr, node := range s.nodes() {
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
		case policy != noEviction:
			return fmt.Errorf("%w: at %s it is %q, so that records could vanish and work run twice: %w",
				ErrEviction, addr, policy, store.ErrUnavailable)
		}
		answered = true
	}
	if !answered {
		return unreached
	}
	return nil
}

// A node is a server that can be asked.
type node interface {
	B() rueidis.Builder
	Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult
}

// nodes returns the servers behind the client by their addresses. A client of the user's own making that does not
// tell them apart is asked as one.
func (s *Store) nodes() map[string]node {
	nodes := map[string]node{}
	if c, ok := s.client.(interface {
		Nodes() map[string]rueidis.Client
	}); ok {
		for addr, n := range c.Nodes() {
			nodes[addr] = n
		}
	}
	if len(nodes) == 0 {
		nodes["the server"] = s.client
	}
	return nodes
}

// maxmemoryPolicy asks for the setting, in two ways since managed services tend to forbid the first. Both commands are
// built as ones that rueidis does not repeat by itself.
func maxmemoryPolicy(ctx context.Context, n node) (string, error) {
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
	return "not told", nil
}

// forbidden holds for a command that the server does not carry out for this user, or has no knowledge of.
func forbidden(err error) bool {
	answer, ok := rueidis.IsRedisErr(err)
	if !ok {
		return false
	}
	code, _, _ := strings.Cut(answer.Error(), " ")
	return code == "NOPERM" || code == "ERR"
}
