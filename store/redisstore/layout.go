package redisstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/redis/rueidis"
	"github.com/redo-go/redo/store"
)

// format is the version of the layout and of its records. It begins each record and the layout's key.
const format = "redo2"

// markLead begins the member of an index that names the layout's secret.
const markLead = "="

// join sets the layout that all stores under the prefix share. The key "redo:layout" holds it: the format and the
// secret. The first store creates the secret and marks each shard's index with it.
//
// The marks make a lost layout harmless. After the server has lost its data, a new process creates another secret than
// the running ones have. Two processes would look for one ID in two shards. So no script creates a record in a shard
// without the layout's mark. It returns an error, and the store joins again.
//
// Repair marks the shards even if the layout exists.
func (s *Store) join(ctx context.Context, repair bool) error {
	var text string
	err := s.persist(ctx, func() (err error) {
		text, err = s.readLayout(ctx)
		return err
	})
	if err != nil {
		return readFailed(ctx, err)
	}
	if text == "" || repair {
		if text, err = s.markShards(ctx, text); err != nil {
			return err
		}
	}
	l, err := parseLayout(s.prefix, text)
	if err != nil {
		return err
	}
	s.layout.Store(l)
	return nil
}

// readLayout returns "" if there is no layout.
func (s *Store) readLayout(ctx context.Context) (string, error) {
	text, err := s.client.Do(ctx, s.primary("GET", s.layoutKey())).ToString()
	if rueidis.IsRedisNil(err) {
		return "", nil
	}
	return text, err
}

func (s *Store) layoutKey() string { return s.prefix + ":layout" }

// primary builds a command that rueidis sends once, and to the primary.
func (s *Store) primary(name, key string, args ...string) rueidis.Completed {
	return s.client.B().Arbitrary(name).Keys(key).Args(args...).Build()
}

func parseLayout(prefix, text string) (*layout, error) {
	version, digits, _ := strings.Cut(text, ":")
	if number, ok := strings.CutPrefix(version, "redo"); ok && version != format && number != "" {
		return nil, wrongFormat(prefix, number)
	}
	secret, err := hex.DecodeString(digits)
	if version != format || err != nil || len(secret) != secretSize {
		return nil, malformed("the key %s:layout holds no layout", prefix)
	}
	return newLayout(prefix, [secretSize]byte(secret)), nil
}

func wrongFormat(prefix, version string) error {
	return fmt.Errorf("redisstore: %w: the records under %q are of format %s, this release reads format %s: %w",
		ErrFormat, prefix, version, strings.TrimPrefix(format, "redo"), store.ErrUnavailable)
}

// markShards creates the layout if text is "", marks each index with it, and returns it. It keeps a secret that an
// index still holds.
func (s *Store) markShards(ctx context.Context, text string) (string, error) {
	blank := newLayout(s.prefix, [secretSize]byte{})
	found, err := s.marks(ctx, blank)
	if err != nil {
		return "", err
	}
	if text == "" {
		secret := strings.TrimPrefix(found, markLead)
		if secret == "" {
			var random [secretSize]byte
			rand.Read(random[:])
			secret = hex.EncodeToString(random[:])
		}
		set := s.primary("SET", s.layoutKey(), format+":"+secret, "NX")
		if err := s.client.Do(ctx, set).Error(); err != nil && !rueidis.IsRedisNil(err) {
			return "", readFailed(ctx, err)
		}
		if text, err = s.readLayout(ctx); err != nil { // another store may have been first
			return "", readFailed(ctx, err)
		}
	}
	l, err := parseLayout(s.prefix, text)
	if err != nil {
		return "", err
	}
	if found != "" && found != l.mark {
		return "", malformed("the shards of %q do not belong to the layout in %s", s.prefix, s.layoutKey())
	}
	cmds := make([]rueidis.Completed, shardCount)
	for i, sh := range l.shards {
		cmds[i] = s.primary("ZADD", sh.pending, "NX", "-inf", l.mark)
	}
	for _, got := range s.client.DoMulti(ctx, cmds...) {
		if err := got.Error(); err != nil {
			return "", readFailed(ctx, err)
		}
	}
	return text, nil
}

// marks returns the mark in the indexes, "" if there is none.
func (s *Store) marks(ctx context.Context, l *layout) (mark string, err error) {
	cmds := make([]rueidis.Completed, shardCount)
	for i, sh := range l.shards {
		cmds[i] = s.primary("ZRANGEBYSCORE", sh.pending, "-inf", "(0")
	}
	for i, got := range s.client.DoMulti(ctx, cmds...) {
		members, err := got.AsStrSlice()
		if err != nil {
			return "", readFailed(ctx, err)
		}
		for _, m := range members {
			switch {
			case m == fenceMember: // its score was negative in format 1
				return "", wrongFormat(s.prefix, "1")
			case mark != "" && m != mark:
				return "", malformed("the index %s does not belong to the layout of the others", l.shards[i].pending)
			}
			mark = m
		}
	}
	return mark, nil
}
