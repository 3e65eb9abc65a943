package redisstore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/redisstore"
	"github.com/redo-go/redo/store/storetest"
	"github.com/stretchr/testify/require"
)

func TestContract(t *testing.T) {
	contract(t, sharedURL(t))
}

// The contract holds over connections that fail. Each store has one connection, through a proxy.
func TestContractUnderFaults(t *testing.T) {
	url := sharedURL(t)
	proxies := map[store.Store]*storetest.Proxy{}
	factory := func(t *testing.T) store.Store {
		o, err := rueidis.ParseURL(url)
		require.NoError(t, err)
		p := storetest.NewProxy(t, o.InitAddress[0])
		o.InitAddress, o.DisableCache, o.PipelineMultiplex = []string{p.Addr()}, true, -1
		c, err := rueidis.NewClient(o)
		require.NoError(t, err)
		t.Cleanup(c.Close)
		st, err := redisstore.New(t.Context(), c, redisstore.WithPrefix(prefix(t, url)))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, st.Close()) })
		proxies[st] = p
		return st
	}
	inject := func(t *testing.T, st store.Store, f storetest.Fault) func() {
		if f != storetest.Closed {
			return proxies[st].Inject(f)
		}
		require.NoError(t, st.(*redisstore.Store).Close())
		return func() {}
	}
	storetest.Run(t, factory, storetest.SelfExpiring(), storetest.Faults(inject))
}

// damaged overwrites the key of a record with a string that is none. The key ends with the ID.
func damaged(url string, prefixes map[store.Store]string) func(*testing.T, store.Store, store.ID) store.Store {
	return func(t *testing.T, st store.Store, id store.ID) store.Store {
		suffix := fmt.Sprintf("r:%d:%s%s", len(id.Scope), id.Scope, id.Key)
		for _, key := range keysOf(t, url, prefixes[st]+":{*}:r:*") {
			if strings.HasSuffix(key, suffix) {
				c := client(t, url)
				require.NoError(t, c.Do(t.Context(), c.B().Set().Key(key).Value("damaged").Build()).Error())
				return st
			}
		}
		require.FailNow(t, "there is no key of the record", "%v", id)
		return nil
	}
}

func contract(t *testing.T, url string, opts ...redisstore.Option) {
	prefixes := map[store.Store]string{}
	openAs := func(t *testing.T, p string) store.Store {
		st := open(t, url, append(opts, redisstore.WithPrefix(p))...)
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
	storetest.Run(t, factory, storetest.Beside(beside), storetest.Reopen(reopen), storetest.SelfExpiring(),
		storetest.Damage(damaged(url, prefixes)))
}
