package redisstore_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/redisstore"
	"github.com/stretchr/testify/require"
)

func TestOwner(t *testing.T) {
	url := sharedURL(t)
	st := open(t, url, redisstore.WithPrefix(prefix(t, url)))
	for rule, c := range map[string]struct{ first, second string }{
		"a short owner":                     {"a", "b"},
		"no owner":                          {"", "b"},
		"an owner of the largest size":      {strings.Repeat("a", store.MaxOwner), ""},
		"an owner of bytes that mean more":  {"redo2p-\x00\n", "%d{}\xff"},
		"an owner that is like the lengths": {"0000004", "99"},
	} {
		t.Run(rule, func(t *testing.T) {
			cl := claim(rule)
			cl.Lease, cl.Owner = 0, c.first
			g := acquire(t, st, cl)
			require.Equal(t, c.first, g.Record.Owner)
			require.Equal(t, c.first, mustFind(t, st, cl.ID).Owner)
			require.NoError(t, st.Extend(t.Context(), g.Lease, 0, []byte("another meta")))
			require.NoError(t, st.Extend(t.Context(), g.Lease, 0, nil))
			r := mustFind(t, st, cl.ID)
			require.Equal(t, c.first, r.Owner)
			require.Equal(t, "another meta", string(r.Meta))

			cl.Owner = c.second
			g, err := st.Reserve(t.Context(), cl)
			require.NoError(t, err)
			require.Equal(t, store.TakenOver, g.Verdict)
			require.Equal(t, c.second, g.Record.Owner)
			require.Equal(t, "another meta", string(g.Record.Meta))
			for r, err := range st.Pending(t.Context(), "") {
				require.NoError(t, err)
				if r.ID == cl.ID {
					require.Equal(t, c.second, r.Owner)
				}
			}
			require.NoError(t,
				st.Complete(t.Context(), g.Lease, store.Outcome{Result: []byte("result"), Retention: time.Hour}))
			r = mustFind(t, st, cl.ID)
			require.Empty(t, r.Owner)
			require.Equal(t, "another meta", string(r.Meta))
			require.Equal(t, "result", string(r.Result))
		})
	}
}
