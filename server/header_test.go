package server_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store/memstore"
)

func TestKeyHeader(t *testing.T) {
	const name = "x-refund-key" // in canonical form X-Refund-Key
	under := func(key string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Del("Idempotency-Key")
			r.Header.Set(name, key)
		}
	}
	t.Run("the key is read from the header of that name, bare or quoted", func(t *testing.T) {
		g := newRig(t, memstore.New(), nil, server.Required(), server.Header(name))
		requireStored(t, g.do(under("k1")), 201, `{"id":"rf_123"}`)
		requireReplayed(t, g.do(under(`"k1"`)), 201, `{"id":"rf_123"}`)
		requireStored(t, g.do(under("k2")), 201, `{"id":"rf_123"}`)
		require.Equal(t, 2, g.ran())
	})
	t.Run("another header beside it does not count", func(t *testing.T) {
		g := newRig(t, memstore.New(), nil, server.Header(name))
		requireStored(t, g.do(under("k1"), withKey("a")), 201, `{"id":"rf_123"}`)
		requireReplayed(t, g.do(under("k1"), withKey("b")), 201, `{"id":"rf_123"}`)
	})
	t.Run("the default header alone is no key", func(t *testing.T) {
		st := newFaults(nil)
		g := newRig(t, st, nil, server.Header(name))
		require.Equal(t, 201, g.do(withKey("k1")).Code)
		require.Empty(t, st.calls)
		g = newRig(t, st, nil, server.Header(name), server.Required())
		requireProblem(t, g.do(withKey("k1")), 400, "VALIDATION.idempotency_key.missing")
		require.Zero(t, g.ran())
	})
	t.Run("without the option that header is no key", func(t *testing.T) {
		st := newFaults(nil)
		g := newRig(t, st, nil)
		require.Equal(t, 201, g.do(under("k1")).Code)
		require.Empty(t, st.calls)
	})
	t.Run("problems name the header", func(t *testing.T) {
		for _, c := range []struct {
			opts []server.Option
			name string
		}{
			{nil, "Idempotency-Key"},
			{[]server.Option{server.Header(name)}, "X-Refund-Key"},
		} {
			g := newRig(t, memstore.New(), nil, append(c.opts, server.Required())...)
			sends := func(key string) func(*http.Request) {
				return func(r *http.Request) { r.Header = http.Header{c.name: {key}} }
			}
			p := requireProblem(t, g.do(without("Idempotency-Key")), 400, "VALIDATION.idempotency_key.missing")
			require.Equal(t, c.name+" missing", p.Title)
			require.Equal(t, "This route requires the header "+c.name+", and the request has none.", p.Detail)
			p = requireProblem(t, g.do(sends("")), 400, "VALIDATION.idempotency_key.malformed")
			require.Equal(t, c.name+" malformed", p.Title)
			require.Contains(t, p.Detail, "The header "+c.name+" is refused: ")
			g.do(sends("k1"))
			p = requireProblem(t, g.do(sends("k1"), withBody("other")), 409, "CONFLICT.idempotency.payload_mismatch")
			require.Equal(t, c.name+" used for another request", p.Title)
		}
	})
}
