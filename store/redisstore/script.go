package redisstore

import (
	"context"
	"crypto/sha1" // the engine names scripts by it; nothing depends on its strength
	"embed"
	"encoding/hex"
	"strings"

	"github.com/redis/rueidis"
)

//go:embed lua
var sources embed.FS

// A script is one transition. The engine runs it as a whole, and runs nothing else meanwhile.
type script struct{ source, sum string }

// newScript reads a script with the files that it includes.
func newScript(name string) script {
	source := include(name)
	sum := sha1.Sum([]byte(source))
	return script{source: source, sum: hex.EncodeToString(sum[:])}
}

// include returns a file, with the file x in place of each line "--@ x". It leaves comments out.
func include(name string) string {
	text, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // the names are constants
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		code := strings.TrimSpace(line)
		if part, found := strings.CutPrefix(code, "--@ "); found {
			b.WriteString(include(part))
		} else if !strings.HasPrefix(code, "--") {
			b.WriteString(line)
		}
	}
	return b.String()
}

var (
	reserveScript  = newScript("reserve")
	extendScript   = newScript("extend")
	completeScript = newScript("complete")
	releaseScript  = newScript("release")
	forgetScript   = newScript("forget")
	dropScript     = newScript("drop")
	findScript     = newScript("find")
	purgeScript    = newScript("purge")
)

// A doer builds and sends commands.
type doer interface {
	B() rueidis.Builder
	Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult
}

func (sc script) bySum(b doer, keys, args []string) rueidis.Completed {
	return b.B().Evalsha().Sha1(sc.sum).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

func (sc script) whole(b doer, keys, args []string) rueidis.Completed {
	return b.B().Eval().Script(sc.source).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

// run runs a script, and repeats it as attempts allows. Scripts that only read are sent like scripts that write.
// Otherwise rueidis would repeat commands that read until the context ends, and might send them to a replica.
func (s *Store) run(ctx context.Context, sc script, keys, args []string) rueidis.RedisResult {
	got := s.runOnce(ctx, s.client, sc, keys, args)
	for a := (attempts{}); a.another(ctx, s, got.Error()); {
		got = s.runOnce(ctx, s.client, sc, keys, args)
	}
	return got
}

// runOnce sends the script's name. It sends the source to a server that does not have the script.
func (s *Store) runOnce(ctx context.Context, c doer, sc script, keys, args []string) rueidis.RedisResult {
	got := c.Do(ctx, sc.bySum(c, keys, args))
	if !unloaded(got) {
		return got
	}
	return c.Do(ctx, sc.whole(c, keys, args))
}

// unloaded reports whether the server does not have the script. It has run nothing then.
func unloaded(r rueidis.RedisResult) bool {
	reply, ok := rueidis.IsRedisErr(r.Error())
	return ok && reply.IsNoScript()
}

// runAll runs a script on each of many lists of keys, with the same arguments, in one round trip. Each single run
// is atomic.
func (s *Store) runAll(ctx context.Context, sc script, many [][]string, args ...string) []rueidis.RedisResult {
	cmds := make([]rueidis.Completed, len(many))
	for i, keys := range many {
		cmds[i] = sc.bySum(s.client, keys, args)
	}
	got := s.client.DoMulti(ctx, cmds...)
	for i, r := range got {
		if !unloaded(r) && !moving(r.Error()) && !s.disturbed(ctx, r.Error()) {
			continue
		}
		if got[i] = s.run(ctx, sc, many[i], args); moving(got[i].Error()) {
			break // the call fails, and must not wait for each of the others too
		}
	}
	return got
}
