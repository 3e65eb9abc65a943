package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/redo-go/redo/benchmarks/contest"
	"github.com/redo-go/redo/store/redisstore"
)

// redisScales are the store's calls on a server of few records and on one of many. They share the servers, which
// are private: in one server all records share a table, under all prefixes.
func redisScales(many int) []contest.Scenario {
	a := &redisScaleArena{sizes: map[string]int{bySmall: few, byLarge: many}}
	of := func(name, title string, callers int, op func(*scaledRedis) contest.Runner) contest.Scenario {
		on := func(size string) func(string) (contest.Runner, error) {
			return func(string) (contest.Runner, error) { return op(a.servers[size]), nil }
		}
		return contest.Scenario{
			Name:  name,
			Title: fmt.Sprintf("redisstore with %d and with %d records: %s", few, many, title),
			Ready: a.open, End: a.stop, Reference: bySmall, Callers: callers, Slow: true,
			Contestants: []contest.Contestant{{Name: bySmall, Open: on(bySmall)}, {Name: byLarge, Open: on(byLarge)}},
		}
	}
	return []contest.Scenario{
		of("scale-redis-first", "reserve and complete, 64 callers", engineCallers, (*scaledRedis).first),
		of("scale-redis-replay", "replays of any of the records, 64 callers", engineCallers, (*scaledRedis).replay),
		of("scale-redis-purge", "32 claims that expire immediately, and a purge of the rest, one caller", 1,
			(*scaledRedis).purge),
	}
}

// A redisScaleArena is a server of each size, started and filled once.
type redisScaleArena struct {
	sizes   map[string]int
	servers map[string]*scaledRedis
}

func (a *redisScaleArena) open() (err error) {
	if a.servers != nil {
		return nil
	}
	ctx, cancel := preparing()
	defer cancel()
	a.servers = map[string]*scaledRedis{}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.stop())
		}
	}()
	for name, size := range a.sizes {
		s := &scaledRedis{size: size}
		a.servers[name] = s
		if err = s.start(ctx); err != nil {
			return err
		}
		if err = s.fill(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (a *redisScaleArena) stop() error {
	var failures []error
	for _, s := range a.servers {
		failures = append(failures, s.stop())
	}
	a.servers = nil
	return errors.Join(failures...)
}

// A scaledRedis is a private server that was filled with complete records.
type scaledRedis struct {
	size   int
	dir    string
	cmd    *exec.Cmd
	client rueidis.Client
	store  *redisstore.Store
	made   atomic.Uint64
}

// start runs redis-server on a socket, so that no port is taken.
func (s *scaledRedis) start(ctx context.Context) (err error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return fmt.Errorf("%w: redis-server is not on the PATH: %w", contest.ErrNoEngine, err)
	}
	if s.dir, err = os.MkdirTemp("", "redo-bench-"); err != nil {
		return err
	}
	socket := filepath.Join(s.dir, "redis.sock")
	s.cmd = exec.Command(binary, "--port", "0", "--unixsocket", socket, "--dir", s.dir, "--save", "", "--appendonly",
		"no", "--maxmemory-policy", "noeviction")
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return err
	}
	for range 500 {
		if conn, err := net.Dial("unix", socket); err == nil {
			_ = conn.Close()
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if s.client, err = dialRedis("unix://" + socket); err != nil {
		return err
	}
	s.store, err = redisstore.New(ctx, s.client)
	return err
}

// fill makes the records as they are made on any day.
func (s *scaledRedis) fill(ctx context.Context) error {
	const fillers = 512
	failures := make([]error, fillers)
	var all sync.WaitGroup
	for f := range fillers {
		all.Go(func() {
			for i := f; i < s.size && failures[f] == nil; i += fillers {
				failures[f] = firstRun(ctx, s.store, timeKey(uint64(i)))
			}
		})
	}
	all.Wait()
	s.made.Store(uint64(s.size))
	return errors.Join(failures...)
}

func (s *scaledRedis) stop() error {
	if s.store != nil {
		_ = s.store.Close() // it returns nil
	}
	if s.client != nil {
		s.client.Close()
	}
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait() // it was killed
	}
	return os.RemoveAll(s.dir)
}

func (s *scaledRedis) first() contest.Runner {
	return contest.Concurrently(engineCallers, func(int) error {
		return firstRun(context.Background(), s.store, timeKey(s.made.Add(1)))
	}, nil)
}

func (s *scaledRedis) replay() contest.Runner {
	return contest.Concurrently(engineCallers, func(int) error {
		return replayRun(context.Background(), s.store, timeKey(uint64(rand.IntN(s.size))))
	}, nil)
}

// purge makes the records that it purges. The claims themselves take most of them off the index already. Otherwise
// the number left would depend on the number of calls.
func (s *scaledRedis) purge() contest.Runner {
	claim := engineClaim("")
	claim.Lease, claim.Retention = 0, time.Millisecond
	return contest.Serially(func(int) error {
		for range 32 {
			claim.ID.Key = timeKey(s.made.Add(1))
			if _, err := s.store.Reserve(context.Background(), claim); err != nil {
				return err
			}
		}
		_, err := s.store.Purge(context.Background(), 1000)
		return err
	}, nil)
}
