package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/redis/rueidis"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/redisstore"
	"github.com/stretchr/testify/require"
)

// A swapped client has another reply in place of some: that to the words that swap returns.
type swapped struct {
	rueidis.Client
	swap func(words []string) []string
}

// Words that swap returns for a command that fails by the end of a context that is not the call's.
var late, canceled = []string{"late"}, []string{"canceled"}

// unknown is a command that no server has.
var unknown = []string{"NOSUCH"}

// loading is a command that a server refuses for a while.
var loading = []string{"EVAL", "return redis.error_reply('LOADING the data')", "0"}

func (c *swapped) other(ctx context.Context, cmd rueidis.Completed) (got rueidis.RedisResult, swapped bool) {
	words := c.swap(slices.Clone(cmd.Commands()))
	if slices.Equal(words, cmd.Commands()) {
		return got, false
	}
	switch words[0] {
	case late[0]:
		ended, cancel := context.WithTimeout(ctx, 0)
		defer cancel()
		return c.Client.Do(ended, cmd), true
	case canceled[0]:
		ended, cancel := context.WithCancel(ctx)
		cancel()
		return c.Client.Do(ended, cmd), true
	}
	return c.Client.Do(context.WithoutCancel(ctx), c.B().Arbitrary(words...).Build()), true
}

func (c *swapped) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if got, swapped := c.other(ctx, cmd); swapped {
		return got
	}
	return c.Client.Do(ctx, cmd)
}

func (c *swapped) DoMulti(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
	others := map[int]rueidis.RedisResult{}
	for i, cmd := range cmds {
		if got, swapped := c.other(ctx, cmd); swapped {
			others[i] = got
		}
	}
	all := c.Client.DoMulti(ctx, cmds...)
	for i, got := range others {
		all[i] = got
	}
	return all
}

func (c *swapped) Nodes() map[string]rueidis.Client {
	nodes := map[string]rueidis.Client{}
	for addr, n := range c.Client.Nodes() {
		nodes[addr] = &swapped{n, c.swap}
	}
	return nodes
}

// by returns a swap of the commands that the map names. The number after a name is that of the command to be swapped,
// from 1.
func by(others map[string][]string) func([]string) []string {
	times := map[string]int{}
	return func(words []string) []string {
		times[words[0]]++
		if other, found := others[fmt.Sprint(words[0], " ", times[words[0]])]; found {
			return other
		}
		if other, found := others[words[0]]; found {
			return other
		}
		return words
	}
}

// swapping opens a store whose replies a test swaps later.
func swapping(t *testing.T, url string) (*redisstore.Store, *swapped) {
	t.Helper()
	c := &swapped{client(t, url), by(nil)}
	st, err := redisstore.New(t.Context(), c, redisstore.WithPrefix(prefix(t, url)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	return st, c
}

// No store opens on a layout that it could not read or make whole.
func TestLayoutThatTheServerRefuses(t *testing.T) {
	url := sharedURL(t)
	for _, step := range []string{"GET 1", "ZRANGEBYSCORE 1", "ZRANGEBYSCORE 256", "SET 1", "GET 2", "ZADD 1", "ZADD 256"} {
		t.Run(step, func(t *testing.T) {
			c := &swapped{client(t, url), by(map[string][]string{step: unknown})}
			_, err := redisstore.New(t.Context(), c, redisstore.WithPrefix(prefix(t, url)))
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.NotErrorIs(t, err, redisstore.ErrFormat)
			require.ErrorContains(t, err, "unknown command")
		})
	}
	t.Run("another store of a newer release was first", func(t *testing.T) {
		p := prefix(t, url)
		require.NoError(t, command(t, url, "SET", p+":layout", "redo3:anything").Error())
		c := &swapped{client(t, url), by(map[string][]string{"GET 1": {"GET", p + ":absent"}})}
		_, err := redisstore.New(t.Context(), c, redisstore.WithPrefix(p))
		require.ErrorIs(t, err, redisstore.ErrFormat)
		require.ErrorContains(t, err, "format 3,")
	})
}

func TestPolicyThatTheServerDoesNotShow(t *testing.T) {
	url := sharedURL(t)
	none := []string{"CONFIG", "GET", "none"}
	for rule, c := range map[string]struct {
		others   map[string][]string
		eviction bool
		text     string // of the error, empty if there is none
	}{
		"INFO returns it where CONFIG is not known":         {others: map[string][]string{"CONFIG": unknown}},
		"INFO returns it where CONFIG GET finds no setting": {others: map[string][]string{"CONFIG": none}},
		"a server that shows it nowhere may evict": {
			map[string][]string{"CONFIG": none, "INFO": {"INFO", "server"}}, true, "not shown",
		},
		"a refusal of CONFIG for another reason is unavailable": {
			map[string][]string{"CONFIG": loading}, false, "LOADING",
		},
		"a refusal of INFO for another reason is unavailable": {
			map[string][]string{"CONFIG": none, "INFO": loading}, false, "LOADING",
		},
		"a node that does not reply is unavailable": {map[string][]string{"CONFIG": late}, false, "deadline exceeded"},
	} {
		t.Run(rule, func(t *testing.T) {
			for _, allow := range []bool{false, true} {
				opts := []redisstore.Option{redisstore.WithPrefix(prefix(t, url))}
				if allow {
					opts = append(opts, redisstore.AllowEviction())
				}
				st, err := redisstore.New(t.Context(), &swapped{client(t, url), by(c.others)}, opts...)
				if c.text == "" || c.eviction && allow {
					require.NoError(t, err)
					require.NoError(t, st.Close())
					continue
				}
				require.ErrorIs(t, err, store.ErrUnavailable)
				require.Equal(t, c.eviction, errors.Is(err, redisstore.ErrEviction))
				require.ErrorContains(t, err, c.text)
			}
		})
	}
}

func TestAReplyThatTheStoreDoesNotKnow(t *testing.T) {
	url := sharedURL(t)
	st, c := swapping(t, url)
	l := acquire(t, st, claim("k")).Lease
	keys := keysOf(t, url, "redo-test:*r:5:scopek")
	sound, err := command(t, url, "GET", keys[len(keys)-1]).ToString()
	require.NoError(t, err)
	for _, lua := range []string{
		"return 'short'", "return {}", "return {ARGV[1]}", "return {'r1', ARGV[1]}", "return {'', ARGV[1]}",
		"return {'r179500000000001', ARGV[1]}", "return {'r17950000000000010', ARGV[1]}",
		"return {'r1795000000000001', ARGV[1], ''}",
	} {
		c.swap = by(map[string][]string{"EVALSHA": {"EVAL", lua, "0", sound}})
		_, reserve := st.Reserve(t.Context(), claim("k"))
		_, find := st.Find(t.Context(), l.ID)
		for call, err := range map[string]error{"Reserve": reserve, "Find": find} {
			require.ErrorIs(t, err, redisstore.ErrFormat, "%s: %s", call, lua)
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.NotErrorIs(t, err, store.ErrDamaged)
		}
	}
	c.swap = by(map[string][]string{"EVALSHA": {"EVAL", "return 'what'", "0"}})
	err = st.Release(t.Context(), l)
	require.ErrorIs(t, err, redisstore.ErrFormat)
	require.ErrorContains(t, err, `the reply "what"`)
}

// A call of which another caller kept a part from being sent is sent again.
func TestAListAfterAnotherCallerGaveUp(t *testing.T) {
	st, c := swapping(t, sharedURL(t))
	for i := range 3 {
		acquire(t, st, claim(fmt.Sprint(i)))
	}
	for _, step := range []string{"ZRANGE 16", "GETRANGE 3", "EVALSHA 3"} {
		c.swap = by(map[string][]string{step: canceled})
		keys, unread := listed(t, st)
		require.Equal(t, []string{"0", "1", "2"}, keys, step)
		require.Empty(t, unread, step)
	}
}

// The slots of all records of a page may move. The list waits for one of them only.
func TestAListWaitsForOneMoveAtATime(t *testing.T) {
	st, c := swapping(t, sharedURL(t))
	for i := range 3 {
		acquire(t, st, claim(fmt.Sprint(i)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	sent := 0
	c.swap = func(words []string) []string {
		if words[0] != "EVALSHA" {
			return words
		}
		if sent++; sent > 3 { // the first three are one round trip
			cancel()
		}
		return []string{"EVAL", "return redis.error_reply('TRYAGAIN later')", "0"}
	}
	var errs []error
	for _, err := range st.Pending(ctx, "") {
		errs = append(errs, err)
	}
	require.Equal(t, []error{context.Canceled}, errs)
	require.Equal(t, 4, sent)
}

func TestAnIndexThatTheServerRefusesEndsTheList(t *testing.T) {
	st, c := swapping(t, sharedURL(t))
	acquire(t, st, claim("k"))
	c.swap = by(map[string][]string{"ZRANGE 256": unknown})
	var errs []error
	for _, err := range st.Pending(t.Context(), "") {
		errs = append(errs, err)
	}
	require.Len(t, errs, 1)
	require.ErrorContains(t, errs[0], "unknown command")
}

func TestAPurgeThatFailsCountsWhatItRemoved(t *testing.T) {
	url := sharedURL(t)
	st, c := swapping(t, url)
	brief(t, st, "first")
	brief(t, st, keyIn(st, otherTag(st, "first"), 0))
	fail := func(count bool, from int) {
		c.swap = func(words []string) []string {
			if words[0] != "EVALSHA" || (words[len(words)-1] == "0") != count {
				return words
			}
			if from--; from >= 0 {
				return words
			}
			return late
		}
	}
	fail(true, 0)
	n, err := st.Purge(t.Context(), 2)
	require.ErrorIs(t, err, store.ErrUnavailable, "nothing was removed")
	require.Zero(t, n)
	fail(false, 1)
	n, err = st.Purge(t.Context(), 2)
	require.ErrorIs(t, err, store.ErrUnknown)
	require.Equal(t, 1, n)
}

// otherTag is the tag of another shard than that of the key.
func otherTag(st *redisstore.Store, key string) string {
	if redisstore.ShardTag(st, claim(key).ID) == "00" {
		return "01"
	}
	return "00"
}

func TestMoving(t *testing.T) {
	for text, want := range map[string]bool{
		"MOVED 1 127.0.0.1:1": true, "ASK 1 127.0.0.1:1": true, "TRYAGAIN later": true, "LOADING the data": false,
	} {
		err := command(t, sharedURL(t), "EVAL", "return redis.error_reply(ARGV[1])", "0", text).Error()
		require.ErrorContains(t, err, text)
		require.Equal(t, want, redisstore.Moving(err), text)
	}
}
