package redisstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/redisstore"
	"github.com/stretchr/testify/require"
)

func TestNodeDown(t *testing.T) {
	c := privateCluster(t)
	victim, heir := c.primaries[1], c.replicas[1]
	plain := open(t, c.url())
	// A shard of the node that goes down.
	var key string
	for n := 0; key == ""; n++ {
		l := acquire(t, plain, claim(fmt.Sprint("search ", n))).Lease
		if c.moveOf(t, redisstore.ShardTag(plain, l.ID), nil).from == victim {
			key = l.ID.Key
		}
	}
	before := mustFind(t, plain, claim(key).ID)
	heir.inStepWith(t, victim)

	// Writes that the only replica has acknowledged are there when it is promoted.
	st := open(t, c.url(), redisstore.WithReplicas(1, 200*time.Millisecond))
	callers := callersOn(t, st)
	callers.more(t, &callers.done)
	victim.kill()
	callers.more(t, &callers.failed)
	until(t, "the replica was promoted", func() bool { return heir.replication(t)["role"] == "master" })
	until(t, "the store has found it", func() bool {
		_, err := plain.Find(t.Context(), before.ID)
		if err != nil {
			require.ErrorIs(t, err, store.ErrUnavailable)
		}
		return err == nil
	})
	require.Equal(t, before.Fence, mustFind(t, plain, before.ID).Fence)
	require.NoError(t, plain.Complete(t.Context(), before.Lease(), store.Outcome{}), "its owner's lease holds")
	until(t, "no replica is left to acknowledge", func() bool {
		_, err := st.Reserve(t.Context(), claim(keyIn(plain, redisstore.ShardTag(plain, before.ID), 1000)))
		require.Error(t, err)
		return errors.Is(err, store.ErrUnknown)
	})

	require.NoError(t, victim.start())
	until(t, "the node has come back, as a replica", func() bool {
		return victim.replication(t)["role"] == "slave" && victim.replication(t)["master_link_status"] == "up"
	})
	callers.more(t, &callers.done)
	fresh := 1000
	until(t, "its shards take claims", func() bool {
		fresh++
		_, err := settle(t, st, claim(keyIn(plain, redisstore.ShardTag(plain, before.ID), fresh)))
		return err == nil
	})
	require.NoError(t, st.Check(t.Context()))
	for _, l := range callers.end() {
		r := mustFind(t, plain, l.ID)
		require.Equal(t, store.StateComplete, r.State)
		require.Equal(t, l.Fence, r.Fence)
	}
}
