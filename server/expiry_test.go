package server_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// v7 makes a UUIDv7 of a given time.
func v7(at time.Time) string {
	var u uuid.UUID
	binary.BigEndian.PutUint64(u[:8], uint64(at.UnixMilli())<<16)
	u[6], u[8] = 0x70, 0x80
	return u.String()
}

func TestRefuseExpiredKeys(t *testing.T) {
	t.Run("a key older than the retention never runs as new", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := newFaults(nil)
			g := newRig(t, st, nil, server.RefuseExpiredKeys())
			key := withKey(v7(time.Now()))
			requireStored(t, g.do(key), 201, `{"id":"rf_123"}`)
			time.Sleep(server.DefaultRetention)
			p := requireProblem(t, g.do(key), 409, "CONFLICT.idempotency.expired")
			require.False(t, p.Retryable)
			require.Equal(t, 1, g.ran())
			require.Equal(t, 1, st.count("Reserve"), "nothing is written for it")
		})
	})
	t.Run("an old key with a record is replayed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, memstore.New(), nil, server.RefuseExpiredKeys())
			key := withKey(v7(time.Now()))
			time.Sleep(20 * time.Hour)
			requireStored(t, g.do(key), 201, `{"id":"rf_123"}`)
			time.Sleep(20 * time.Hour)
			requireReplayed(t, g.do(key), 201, `{"id":"rf_123"}`)
		})
	})
	t.Run("an old key whose record goes between the look and the claim is released unrun", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := newFaults(func(method string, _ int, do func() error) error {
				if method == "Find" {
					return nil // a record exists, as far as this read shows
				}
				return do()
			})
			g := newRig(t, st, nil, server.RefuseExpiredKeys())
			requireProblem(t, g.do(withKey(v7(time.Now().Add(-48*time.Hour)))), 409, "CONFLICT.idempotency.expired")
			require.Zero(t, g.ran())
			require.Equal(t, 1, st.count("Release"))
		})
	})
	t.Run("keys without an age are not affected", func(t *testing.T) {
		g := newRig(t, memstore.New(), nil, server.RefuseExpiredKeys())
		for _, key := range []string{"order-1138", "919108f7-52d1-4320-9bac-f847db4148a8"} {
			requireStored(t, g.do(withKey(key)), 201, `{"id":"rf_123"}`)
		}
	})
	t.Run("off by default", func(t *testing.T) {
		g := newRig(t, memstore.New(), nil)
		requireStored(t, g.do(withKey(v7(time.Now().Add(-48*time.Hour)))), 201, `{"id":"rf_123"}`)
	})
	t.Run("a store that is down is 503", func(t *testing.T) {
		g := newRig(t, newFaults(failing("Find", store.ErrUnavailable)), nil, server.RefuseExpiredKeys())
		requireProblem(t, g.do(withKey(v7(time.Now().Add(-48*time.Hour)))), 503, "DEPENDENCY.unavailable")
	})
}

func TestKeyFormat(t *testing.T) {
	t.Run("UUIDKeys refuses other keys", func(t *testing.T) {
		g := newRig(t, memstore.New(), nil, server.UUIDKeys())
		requireStored(t, g.do(withKey(v7(time.Now()))), 201, `{"id":"rf_123"}`)
		requireProblem(t, g.do(), 400, "VALIDATION.idempotency_key.malformed")
	})
	t.Run("your own rule is reported to the client", func(t *testing.T) {
		g := newRig(t, memstore.New(), nil, server.KeyFormat(func(key string) error {
			if len(key) < 10 {
				return errors.New("it has fewer than 10 characters")
			}
			return nil
		}))
		p := requireProblem(t, g.do(), 400, "VALIDATION.idempotency_key.malformed")
		require.Contains(t, p.Detail, "fewer than 10 characters")
		require.Zero(t, g.ran())
	})
}

// RFC 9562 section 4: the digits are lower-case in output and have no case in input.
func TestTheCaseOfAUUIDDoesNotMatter(t *testing.T) {
	const lower, upper = "0190c5d4-1f2e-7abc-8def-0123456789ab", "0190C5D4-1F2E-7ABC-8DEF-0123456789AB"
	for name, opts := range map[string][]server.Option{
		"stored as text": {}, "under a pepper": {server.Pepper(make([]byte, 16))},
	} {
		t.Run(name, func(t *testing.T) {
			opts := append([]server.Option{server.UUIDKeys()}, opts...)
			var passedOn string
			var refused server.Problem
			st := memstore.New()
			g := newRig(t, st, func(w http.ResponseWriter, r *http.Request) {
				passedOn = server.Key(r.Context())
				created(w, r)
			}, append(opts, server.Refusal(func(_ http.ResponseWriter, _ *http.Request, p server.Problem) {
				refused = p
			}))...)
			requireStored(t, g.do(withKey(upper)), 201, `{"id":"rf_123"}`)
			require.Equal(t, lower, passedOn)
			requireReplayed(t, g.do(withKey(lower)), 201, `{"id":"rf_123"}`)
			requireReplayed(t, g.do(withKey(upper)), 201, `{"id":"rf_123"}`)
			require.Equal(t, 1, g.ran())
			requireStatus(t, ask(t, st, upper, append(opts, server.SharedKeys())...), `{"state":"complete","status":201}`)
			require.Equal(t, 409, g.do(withKey(upper), withBody("{}")).Code)
			require.Equal(t, upper, refused.Key, "the key as the client sent it")
		})
	}
	t.Run("other keys have a case", func(t *testing.T) {
		g := newRig(t, memstore.New(), nil)
		requireStored(t, g.do(withKey(upper)), 201, `{"id":"rf_123"}`)
		requireStored(t, g.do(withKey(lower)), 201, `{"id":"rf_123"}`)
	})
}

func TestStoredResponseThatIsDamaged(t *testing.T) {
	for rule, result := range map[string][]byte{
		"version 0": {0, 0, 0}, "damaged": {1, 1}, "empty": {}, "absent": nil,
		"a bomb": {1, 0, 0xc8, 0x01, 0x80, 0x02, 0x80, 0x08, 0x80, 0x80, 0x40},
	} {
		t.Run(rule+" is a 500 and never runs the handler again", func(t *testing.T) {
			g := newRig(t, &rewriting{memstore.New(), result}, nil)
			requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
			for range 2 {
				require.False(t, requireProblem(t, g.do(), 500, "CONFIGURATION.stored_response").Retryable)
			}
			require.Equal(t, 1, g.ran())
		})
	}
}

// During a rolling deployment a process of the newer version can replay a record that an older one can't read.
func TestStoredResponseOfANewerVersion(t *testing.T) {
	g := newRig(t, &rewriting{memstore.New(), []byte{2, 0, 0}}, nil)
	requireStored(t, g.do(), 201, `{"id":"rf_123"}`)
	w := g.do()
	require.True(t, requireProblem(t, w, 503, "DEPENDENCY.unavailable").Retryable)
	require.NotEmpty(t, w.Header().Get("Retry-After"))
	require.Equal(t, 1, g.ran())
}

// rewriting is a store that keeps another result than it was given.
type rewriting struct {
	store.Store
	result []byte
}

func (s *rewriting) Complete(ctx context.Context, l store.Lease, o store.Outcome) error {
	o.Result = s.result
	return s.Store.Complete(ctx, l, o)
}
