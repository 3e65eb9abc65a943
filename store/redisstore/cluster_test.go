package redisstore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redo-go/redo/internal/racetest"
	"github.com/redo-go/redo/store/redisstore"
	"github.com/stretchr/testify/require"
)

const (
	clusterPrimaries = 3 // fewer elect no primary when one is lost
	slots            = 16384
)

// A cluster is some primaries with a replica each.
type cluster struct{ primaries, replicas []*engine }

// privateCluster starts one, or skips the test where its nodes don't find each other.
func privateCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{}
	start := func() *engine {
		e := &engine{binary: engineBinary(t), dir: t.TempDir(), args: []string{"--cluster-enabled", "yes",
			"--cluster-node-timeout", "2000", "--cluster-replica-validity-factor", "0"}}
		if err := e.start(); err != nil {
			unable(t, err.Error())
		}
		t.Cleanup(e.kill)
		return e
	}
	for range clusterPrimaries {
		c.primaries = append(c.primaries, start())
		c.replicas = append(c.replicas, start())
	}
	for i, e := range c.nodes() {
		e.must(t, "CLUSTER", "SET-CONFIG-EPOCH", fmt.Sprint(i+1))
		e.must(t, "CLUSTER", "MEET", "127.0.0.1", fmt.Sprint(c.primaries[0].port))
	}
	for i, e := range c.primaries {
		e.must(t, "CLUSTER", "ADDSLOTSRANGE", fmt.Sprint(i*slots/clusterPrimaries),
			fmt.Sprint((i+1)*slots/clusterPrimaries-1))
	}
	for i, e := range c.replicas {
		id := c.primaries[i].id(t)
		until(t, "the replica knows its primary", func() bool {
			return command(t, e.url(), "CLUSTER", "REPLICATE", id).Error() == nil
		})
	}
	until(t, "the cluster is whole", func() bool {
		return !slices.ContainsFunc(c.nodes(), func(e *engine) bool { return !e.knowsCluster(t) })
	})
	for i, e := range c.replicas {
		e.inStepWith(t, c.primaries[i])
	}
	until(t, "each node can start again", func() bool {
		return !slices.ContainsFunc(c.nodes(), func(e *engine) bool { return !e.agreesOnShards(t) })
	})
	return c
}

func (c *cluster) nodes() []*engine { return slices.Concat(c.primaries, c.replicas) }

func (c *cluster) url() string { return c.primaries[0].url() }

func (e *engine) must(t testing.TB, args ...string) {
	t.Helper()
	require.NoError(t, command(t, e.url(), args...).Error())
}

func (e *engine) tells(t testing.TB, args ...string) string {
	t.Helper()
	got, err := command(t, e.url(), args...).ToString()
	require.NoError(t, err)
	return got
}

func (e *engine) id(t *testing.T) string {
	t.Helper()
	return e.tells(t, "CLUSTER", "MYID")
}

// knowsCluster reports whether the node sees all slots served, by primaries that have a replica each.
func (e *engine) knowsCluster(t *testing.T) bool {
	t.Helper()
	nodes := e.tells(t, "CLUSTER", "NODES")
	return strings.Contains(e.tells(t, "CLUSTER", "INFO"), "cluster_state:ok") &&
		!strings.Contains(nodes, "handshake") &&
		strings.Count(nodes, "slave ") == clusterPrimaries && strings.Count(nodes, "\n") == 2*clusterPrimaries
}

// agreesOnShards reports whether the node's file gives each replica the shard of its primary. While the nodes meet,
// they may differ, and Valkey 8.0 calls such a file corrupted: https://github.com/valkey-io/valkey/issues/774. Redis
// 7.0 names no shards.
func (e *engine) agreesOnShards(t *testing.T) bool {
	text, err := os.ReadFile(filepath.Join(e.dir, "nodes.conf"))
	require.NoError(t, err)
	shards, primaries := map[string]string{}, map[string]string{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) >= 8 {
			_, shard, _ := strings.Cut(f[1], "shard-id=")
			shards[f[0]], primaries[f[0]] = shard, f[3]
		}
	}
	for node, primary := range primaries {
		if primary != "-" && shards[node] != shards[primary] {
			return false
		}
	}
	return len(primaries) == 2*clusterPrimaries
}

// keyIn returns the n-th key whose record lies in the shard.
func keyIn(st *redisstore.Store, tag string, n int) string {
	for i := 0; ; i++ {
		if key := fmt.Sprint("key ", i); redisstore.ShardTag(st, claim(key).ID) == tag {
			if n--; n < 0 {
				return key
			}
		}
	}
}

func TestContractOnACluster(t *testing.T) {
	racetest.Repeats(t)
	contract(t, privateCluster(t).url())
}
