package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/redo-go/redo/benchmarks/contest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/redisstore"
)

// redisScenario compares first runs, reserve and complete, or replays. Both contestants pipeline over one client.
func redisScenario(replay bool) contest.Scenario {
	a := &redisArena{}
	s := contest.Scenario{
		Name: "redis-first", Title: "redisstore: reserve and complete, 64 callers",
		Ready: a.open, Done: a.close, Reference: byEngine, Callers: engineCallers,
		Contestants: []contest.Contestant{
			{Name: byEngine, Open: calls(a.firstByDriver)},
			{Name: byRedo, Open: calls(a.firstByRedo)},
		},
	}
	if replay {
		s.Name, s.Title = "redis-replay", "redisstore: the replay of a complete record, 64 callers"
		s.Contestants = []contest.Contestant{
			{Name: byEngine, Open: calls(a.replayByDriver)},
			{Name: byRedo, Open: calls(a.replayByRedo)},
		}
	}
	return s
}

// A redisArena is a new prefix on a server.
type redisArena struct {
	prefix string
	client rueidis.Client
	store  *redisstore.Store
	heard  listener
	pairs  []pair // one for each shard that was met, so that the driver's keys are spread like the store's
	made   atomic.Uint64
}

func (a *redisArena) open() (err error) {
	ctx, cancel := preparing()
	defer cancel()
	if a.client, err = dialRedis(redisURL()); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	a.prefix = label()
	if a.store, err = redisstore.New(ctx, a.client, redisstore.WithPrefix(a.prefix)); err != nil {
		return err
	}
	if err = firstRun(ctx, a.store, replayed); err != nil {
		return err
	}
	return a.record(ctx)
}

// dialRedis connects as redisstore.Open does.
func dialRedis(url string) (rueidis.Client, error) {
	o, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, absent("Redis", "REDO_TEST_REDIS", errors.New("the URL can't be read"))
	}
	o.DisableCache = true
	client, err := rueidis.NewClient(o)
	if err != nil {
		return nil, absent("Redis", "REDO_TEST_REDIS", err)
	}
	return client, nil
}

// probes is the number of pairs that are recorded.
const probes = 256

// record learns from the store itself which scripts it runs, with which keys and arguments.
func (a *redisArena) record(ctx context.Context) error {
	a.heard.Client = a.client
	st, err := redisstore.New(ctx, &a.heard, redisstore.WithPrefix(a.prefix))
	if err != nil {
		return err
	}
	for i := range uint64(probes) {
		key := timeKey(1<<40 + i) // as long as those that are to come
		a.heard.commands = nil
		g, err := st.Reserve(ctx, engineClaim(key))
		if err != nil {
			return err
		}
		if err := st.Complete(ctx, g.Lease, store.Outcome{Result: result}); err != nil {
			return err
		}
		p, err := newPair(a.heard.commands, a.heard.first, key, g.Lease.Fence)
		if err != nil {
			return err
		}
		a.pairs = append(a.pairs, p)
	}
	a.heard.commands = nil
	if err := replayRun(ctx, st, replayed); err != nil {
		return err
	}
	a.heard.replay = slices.Clone(a.heard.commands[0])
	return nil
}

// A listener is a client that records the commands sent through it.
type listener struct {
	rueidis.Client
	commands [][]string
	first    string // the first response
	replay   []string
}

func (l *listener) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	l.commands = append(l.commands, slices.Clone(cmd.Commands()))
	got := l.Client.Do(ctx, cmd)
	if len(l.commands) == 1 {
		l.first, _ = got.ToString()
	}
	return got
}

// A pair holds the commands of reserve and complete for one key, and the places in them that differ from one
// record to the next.
type pair struct {
	key               string
	reserve, complete []string
	fenceFrom, fenceN int // in reserve's response
	fenceArg          int // of complete
}

var errOtherScripts = errors.New("benchmarks: redisstore's scripts are called otherwise than this " +
	"comparison was written for")

func newPair(commands [][]string, answer, key string, fence uint64) (pair, error) {
	if len(commands) != 2 || commands[0][0] != "EVALSHA" || commands[1][0] != "EVALSHA" {
		return pair{}, fmt.Errorf("%w: %d commands", errOtherScripts, len(commands))
	}
	// Both hold its digits, with as many zeros before them.
	p := pair{key: key, reserve: commands[0], complete: commands[1]}
	p.fenceArg = slices.IndexFunc(commands[1], func(arg string) bool {
		n, err := strconv.ParseUint(arg, 10, 64)
		return err == nil && n == fence
	})
	if p.fenceArg < 0 {
		return pair{}, fmt.Errorf("%w: complete is not given the fence", errOtherScripts)
	}
	p.fenceN = len(commands[1][p.fenceArg])
	if p.fenceFrom = strings.Index(answer, commands[1][p.fenceArg]); p.fenceFrom < 0 {
		return pair{}, fmt.Errorf("%w: reserve does not return the fence", errOtherScripts)
	}
	return p, nil
}

// on returns a command's arguments for another key.
func (p pair) on(command []string, key string) []string {
	args := slices.Clone(command)
	for i, arg := range args {
		if len(arg) >= len(p.key) && strings.Contains(arg, p.key) {
			args[i] = strings.Replace(arg, p.key, key, 1)
		}
	}
	return args
}

func (a *redisArena) close() error {
	if a.client == nil {
		return nil
	}
	ctx, cancel := preparing()
	defer cancel()
	if a.store != nil {
		_ = a.store.Close() // it returns nil
	}
	err := sweep(ctx, a.client, a.prefix)
	a.client.Close()
	a.client = nil
	return err
}

// sweep deletes the keys that begin with the prefix.
func sweep(ctx context.Context, client rueidis.Client, prefix string) error {
	for cursor := uint64(0); ; {
		page, err := client.Do(ctx,
			client.B().Scan().Cursor(cursor).Match(prefix+":*").Count(1000).Build()).AsScanEntry()
		if err != nil {
			return err
		}
		if len(page.Elements) > 0 {
			cmds := make([]rueidis.Completed, len(page.Elements))
			for i, key := range page.Elements {
				cmds[i] = client.B().Unlink().Key(key).Build()
			}
			for _, r := range client.DoMulti(ctx, cmds...) {
				if err := r.Error(); err != nil {
					return err
				}
			}
		}
		if cursor = page.Cursor; cursor == 0 {
			return nil
		}
	}
}

func (a *redisArena) firstByRedo(ctx context.Context) error {
	return firstRun(ctx, a.store, timeKey(a.made.Add(1)))
}

func (a *redisArena) replayByRedo(ctx context.Context) error {
	return replayRun(ctx, a.store, replayed)
}

func (a *redisArena) firstByDriver(ctx context.Context) error {
	i := a.made.Add(1)
	p := a.pairs[i%probes]
	key := timeKey(i)
	answer, err := a.send(ctx, p.on(p.reserve, key)).ToString()
	if err != nil {
		return err
	}
	if len(answer) < p.fenceFrom+p.fenceN {
		return fmt.Errorf("%w: the response has %d bytes", errOtherScripts, len(answer))
	}
	args := p.on(p.complete, key)
	args[p.fenceArg] = answer[p.fenceFrom : p.fenceFrom+p.fenceN]
	word, err := a.send(ctx, args).ToString()
	if err == nil && word != "ok" {
		err = fmt.Errorf("benchmarks: complete returns %q", word)
	}
	return err
}

func (a *redisArena) replayByDriver(ctx context.Context) error {
	reply, err := a.send(ctx, a.heard.replay).ToArray()
	if err == nil && len(reply) != 2 {
		err = fmt.Errorf("%w: the reply has %d parts", errOtherScripts, len(reply))
	}
	return err
}

// send builds EVALSHA as redisstore does, from the words that it sent: the sum, how many keys, the keys, the rest.
func (a *redisArena) send(ctx context.Context, words []string) rueidis.RedisResult {
	keys, err := strconv.Atoi(words[2])
	if err != nil {
		panic(err) // redisstore wrote it
	}
	evalsha := a.client.B().Evalsha().Sha1(words[1]).Numkeys(int64(keys))
	return a.client.Do(ctx, evalsha.Key(words[3:3+keys]...).Arg(words[3+keys:]...).Build())
}
