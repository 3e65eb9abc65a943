package redisstore_test

import (
	"testing"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/redisstore"
	"github.com/redo-go/redo/store/storetest"
	"github.com/stretchr/testify/require"
)

func TestContract(t *testing.T) {
	contract(t, sharedURL(t))
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
	storetest.Run(t, factory, storetest.Beside(beside), storetest.Reopen(reopen), storetest.SelfExpiring())
}
