package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/redisstore"
	"github.com/redo-go/redo/store/storetest"
	"github.com/stretchr/testify/require"
)

func TestContract(t *testing.T) {
	contract(t, sharedURL(t))
}

// A cluster of one machine has the rule that matters to a store: what a script touches lies in one slot.
func TestContractOnACluster(t *testing.T) {
	e := privateEngine(t, "--cluster-enabled", "yes")
	require.NoError(t, command(t, e.url(), "CLUSTER", "ADDSLOTSRANGE", "0", "16383").Error())
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for begun := time.Now(); ; <-tick.C {
		info, err := command(t, e.url(), "CLUSTER", "INFO").ToString()
		require.NoError(t, err)
		if strings.Contains(info, "cluster_state:ok") {
			break
		}
		require.Less(t, time.Since(begun), patience, info)
	}
	contract(t, e.url())
}

func contract(t *testing.T, url string) {
	prefixes := map[store.Store]string{}
	openAs := func(t *testing.T, p string) store.Store {
		st := open(t, url, redisstore.WithPrefix(p))
		prefixes[st] = p
		return st
	}
	factory := func(t *testing.T) store.Store {
		return openAs(t, prefix(t, url))
	}
	beside := func(t *testing.T, first store.Store) store.Store { return openAs(t, prefixes[first]) }
	reopen := func(t *testing.T, st store.Store) store.Store {
		require.NoError(t, st.(*redisstore.Store).Close())
		return openAs(t, prefixes[st])
	}
	storetest.Run(t, factory, storetest.Beside(beside), storetest.Reopen(reopen), storetest.SelfExpiring())
}
