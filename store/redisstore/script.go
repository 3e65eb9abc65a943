package redisstore

import (
	"context"
	"crypto/sha1" // the engine names scripts by it; nothing rests on its strength
	_ "embed"
	"encoding/hex"
	"strings"

	"github.com/redis/rueidis"
)

// A script is one transition. The engine runs it as a whole, and nothing else meanwhile.
type script struct{ source, sum string }

// newScript puts a script together from the parts it needs: each defines functions, which costs at each run.
func newScript(parts ...string) script {
	source := prelude + strings.Join(parts, "")
	sum := sha1.Sum([]byte(source))
	return script{source: source, sum: hex.EncodeToString(sum[:])}
}

var (
	//go:embed lua/prelude.lua
	prelude string
	//go:embed lua/read.lua
	readPart string
	//go:embed lua/owned.lua
	ownedPart string
	//go:embed lua/write.lua
	writePart string
	//go:embed lua/wake.lua
	wakePart string
	//go:embed lua/answer.lua
	answerPart string

	//go:embed lua/reserve.lua
	reserveSource string
	//go:embed lua/extend.lua
	extendSource string
	//go:embed lua/complete.lua
	completeSource string
	//go:embed lua/release.lua
	releaseSource string
	//go:embed lua/forget.lua
	forgetSource string
	//go:embed lua/drop.lua
	dropSource string
	//go:embed lua/find.lua
	findSource string
	//go:embed lua/watch.lua
	watchSource string
	//go:embed lua/expired.lua
	expiredSource string
	//go:embed lua/purge.lua
	purgeSource string

	reserveScript  = newScript(readPart, writePart, wakePart, answerPart, reserveSource)
	extendScript   = newScript(readPart, ownedPart, writePart, extendSource)
	completeScript = newScript(readPart, ownedPart, writePart, wakePart, completeSource)
	releaseScript  = newScript(readPart, ownedPart, wakePart, releaseSource)
	forgetScript   = newScript(readPart, forgetSource)
	dropScript     = newScript(readPart, dropSource)
	findScript     = newScript(readPart, answerPart, findSource)
	watchScript    = newScript(readPart, ownedPart, watchSource)
	expiredScript  = newScript(expiredSource)
	purgeScript    = newScript(purgeSource)
)

// A builder builds commands for the client that it is, which on a cluster says where they belong.
type builder interface{ B() rueidis.Builder }

// A doer sends them.
type doer interface {
	builder
	Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult
}

func (sc script) bySum(b builder, keys, args []string) rueidis.Completed {
	return b.B().Evalsha().Sha1(sc.sum).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

func (sc script) whole(b builder, keys, args []string) rueidis.Completed {
	return b.B().Eval().Script(sc.source).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

// run runs a script, again where another caller has kept it from being sent, and after a moment where a cluster is moving
// its keys to another node.
//
// Reads go through scripts that are not marked as reading: rueidis would repeat those for as long as the context
// lives, and may send them to a replica.
func (s *Store) run(ctx context.Context, sc script, keys, args []string) rueidis.RedisResult {
	got := s.runOnce(ctx, s.client, sc, keys, args)
	for t := (tries{}); t.another(ctx, s, got.Error()); {
		got = s.runOnce(ctx, s.client, sc, keys, args)
	}
	return got
}

// runOnce sends the script by its sum, and whole to a server that has forgotten it, which has then run nothing yet.
func (s *Store) runOnce(ctx context.Context, c doer, sc script, keys, args []string) rueidis.RedisResult {
	got := c.Do(ctx, sc.bySum(c, keys, args))
	if !forgotten(got) {
		return got
	}
	return c.Do(ctx, sc.whole(c, keys, args))
}

func forgotten(r rueidis.RedisResult) bool {
	answer, ok := rueidis.IsRedisErr(r.Error())
	return ok && answer.IsNoScript()
}

// An execution is one of many that share a round trip.
type execution struct{ keys, args []string }

// runAll is run for many executions of one script, each of which the engine runs by itself.
func (s *Store) runAll(ctx context.Context, sc script, many []execution) []rueidis.RedisResult {
	cmds := make([]rueidis.Completed, len(many))
	for i, e := range many {
		cmds[i] = sc.bySum(s.client, e.keys, e.args)
	}
	got := s.client.DoMulti(ctx, cmds...)
	for i, r := range got {
		if forgotten(r) || s.disturbed(ctx, r.Error()) {
			got[i] = s.run(ctx, sc, many[i].keys, many[i].args) // loads it, so that the next one is found
		}
	}
	return got
}
