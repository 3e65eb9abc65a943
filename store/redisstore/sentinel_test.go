package redisstore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/redisstore"
	"github.com/stretchr/testify/require"
)

// Sentinel names the primary to the client. In a failover a caller sees calls that fail for a while.
func TestSentinelFailover(t *testing.T) {
	primary := privateEngine(t)
	replica := privateReplica(t, primary)
	sentinel := privateSentinel(t, primary)
	watched, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:  []string{fmt.Sprintf("127.0.0.1:%d", sentinel.port)},
		Sentinel:     rueidis.SentinelOption{MasterSet: "records"},
		DisableCache: true,
	})
	require.NoError(t, err)
	t.Cleanup(watched.Close)
	until(t, "the sentinel knows the replica", func() bool {
		return strings.Contains(sentinel.tells(t, "INFO", "sentinel"), "slaves=1")
	})
	on := func(opts ...redisstore.Option) *redisstore.Store {
		st, err := redisstore.New(t.Context(), watched, opts...)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, st.Close()) })
		return st
	}
	plain, st := on(), on(redisstore.WithReplicas(1, 200*time.Millisecond))
	l := acquire(t, plain, claim("k")).Lease
	replica.inStepWith(t, primary)

	callers := callersOn(t, st)
	callers.more(t, &callers.done)
	primary.kill()
	callers.more(t, &callers.failed)
	until(t, "the store has found the promoted replica", func() bool {
		_, err := settle(t, plain, claim(fmt.Sprint("after ", time.Now().UnixNano())))
		return err == nil
	})
	require.NoError(t, plain.Complete(t.Context(), l, store.Outcome{}), "its owner's lease holds")
	for _, l := range callers.end() {
		r := mustFind(t, plain, l.ID)
		require.Equal(t, store.StateComplete, r.State)
		require.Equal(t, l.Fence, r.Fence)
	}
	require.NoError(t, plain.Check(t.Context()))
}

// privateSentinel watches a primary under the name "records", alone, and is quick to call it down.
func privateSentinel(t *testing.T, primary *engine) *engine {
	t.Helper()
	dir := t.TempDir()
	e := &engine{
		binary: engineBinary(t), dir: dir, config: filepath.Join(dir, "sentinel.conf"), args: []string{"--sentinel"},
	}
	require.NoError(t, os.WriteFile(e.config, fmt.Appendf(nil, "sentinel monitor records 127.0.0.1 %d 1\n"+
		"sentinel down-after-milliseconds records 500\nsentinel failover-timeout records 3000\n", primary.port), 0o600))
	if err := e.start(); err != nil {
		unable(t, err.Error())
	}
	t.Cleanup(e.kill)
	return e
}
