package redisstore

import (
	"context"
	"crypto/sha1" // the engine names scripts by it; nothing rests on its strength
	_ "embed"
	"encoding/hex"

	"github.com/redis/rueidis"
)

// A script is one transition. The engine runs it as a whole, and nothing else meanwhile.
type script struct{ source, sum string }

func newScript(source string) script {
	source = prelude + source
	sum := sha1.Sum([]byte(source))
	return script{source: source, sum: hex.EncodeToString(sum[:])}
}

var (
	//go:embed lua/prelude.lua
	prelude string

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
	//go:embed lua/find.lua
	findSource string
	//go:embed lua/watch.lua
	watchSource string
	//go:embed lua/expired.lua
	expiredSource string
	//go:embed lua/purge.lua
	purgeSource string

	reserveScript  = newScript(reserveSource)
	extendScript   = newScript(extendSource)
	completeScript = newScript(completeSource)
	releaseScript  = newScript(releaseSource)
	forgetScript   = newScript(forgetSource)
	findScript     = newScript(findSource)
	watchScript    = newScript(watchSource)
	expiredScript  = newScript(expiredSource)
	purgeScript    = newScript(purgeSource)
)

// run sends the script by its sum, and whole to a server that has forgotten it, which has then run nothing yet.
//
// Reads go through scripts that are not marked as reading: rueidis would repeat those for as long as the context
// lives, and may send them to a replica.
func (s *Store) run(ctx context.Context, sc script, keys []string, args ...string) rueidis.RedisResult {
	b := s.client.B()
	got := s.client.Do(ctx, b.Evalsha().Sha1(sc.sum).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build())
	if !forgotten(got) {
		return got
	}
	return s.client.Do(ctx, s.whole(sc, keys, args))
}

func (s *Store) whole(sc script, keys, args []string) rueidis.Completed {
	return s.client.B().Eval().Script(sc.source).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
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
		cmds[i] = s.client.B().Evalsha().Sha1(sc.sum).Numkeys(int64(len(e.keys))).Key(e.keys...).Arg(e.args...).Build()
	}
	got := s.client.DoMulti(ctx, cmds...)
	for i, r := range got {
		if forgotten(r) {
			got[i] = s.run(ctx, sc, many[i].keys, many[i].args...) // loads it, so that the next one is found
		}
	}
	return got
}
