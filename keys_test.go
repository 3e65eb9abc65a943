package redo

import (
	"bytes"
	"encoding/binary"
	"io"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/wire"
)

func makeKey(t *testing.T, f KeyFunc, operation string) uuid.UUID {
	t.Helper()
	key, err := f(operation)
	require.NoError(t, err)
	require.NoError(t, wire.CheckKey(key))
	id, err := uuid.Parse(key)
	require.NoError(t, err)
	require.Equal(t, id.String(), key, "the canonical form: lower case, with hyphens")
	return id
}

func TestTimeOrderedKeysAreUUIDv7(t *testing.T) {
	for range 100 {
		before := time.Now().UnixMilli()
		id := makeKey(t, TimeOrderedKeys, "")
		require.Equal(t, uuid.Version(7), id.Version())
		require.Equal(t, uuid.RFC4122, id.Variant())
		var at [8]byte
		copy(at[2:], id[:6])
		made := int64(binary.BigEndian.Uint64(at[:]))
		require.GreaterOrEqual(t, made, before)
		require.LessOrEqual(t, made, time.Now().UnixMilli()+1)
	}
}

func TestTimeOrderedKeysSortInTheOrderTheyWereMade(t *testing.T) {
	var last uuid.UUID
	for range 1000 {
		id := makeKey(t, TimeOrderedKeys, "")
		require.Positive(t, bytes.Compare(id[:], last[:]))
		last = id
	}
}

func TestRandomKeysAreUUIDv4(t *testing.T) {
	for range 100 {
		id := makeKey(t, RandomKeys, "refund:1")
		require.Equal(t, uuid.Version(4), id.Version())
		require.Equal(t, uuid.RFC4122, id.Variant())
	}
}

// Without the error, each operation would have the same key.
func TestAKeyThatCannotBeMadeIsAnError(t *testing.T) {
	uuid.SetRand(iotest.ErrReader(io.ErrUnexpectedEOF))
	t.Cleanup(func() { uuid.SetRand(nil) })
	for name, f := range map[string]KeyFunc{"time-ordered": TimeOrderedKeys, "random": RandomKeys} {
		key, err := f("refund:1")
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, name)
		require.Empty(t, key, name)
	}
}

func TestKeysMadeAtOnceDiffer(t *testing.T) {
	for name, f := range map[string]KeyFunc{"time-ordered": TimeOrderedKeys, "random": RandomKeys} {
		t.Run(name, func(t *testing.T) {
			const makers, each = 8, 500
			keys := make([][each]string, makers)
			var wg sync.WaitGroup
			for i := range makers {
				wg.Go(func() {
					for j := range each {
						keys[i][j], _ = f("same name")
					}
				})
			}
			wg.Wait()
			seen := map[string]bool{}
			for _, made := range keys {
				for _, key := range made {
					require.NotEmpty(t, key)
					seen[key] = true
				}
			}
			require.Len(t, seen, makers*each)
		})
	}
}

// These keys identify users' operations at their providers. A change of any of them would send every operation
// that is under way a second time.
func TestDerivedKeysAreFrozen(t *testing.T) {
	for _, c := range []struct{ name, namespace, operation, want string }{
		{"a text", "live", "refund:ch_9ab:1000", "4cbbb0ff-fa7d-54c4-a365-4952eb41d032"},
		{"another operation", "live", "refund:ch_9ab:1001", "898fdab3-a295-5ac6-b02a-4a22f60e817c"},
		{"another text", "test", "refund:ch_9ab:1000", "454d9c4f-46f8-5c1d-ae90-2628bc3874d9"},
		{"a name of any characters", "live", "Zahlung №1 ✓", "508e3098-90fb-52e5-b9c0-efc18eb307c5"},
		// RFC 9562, appendix A.4.
		{
			"a UUID is the namespace itself", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "www.example.com",
			"2ed6657d-e927-568b-95e1-2665a8aea6a2",
		},
		{
			"a UUID in capitals is the same one", "6BA7B810-9DAD-11D1-80B4-00C04FD430C8", "www.example.com",
			"2ed6657d-e927-568b-95e1-2665a8aea6a2",
		},
		{
			"a UUID as a URN is the same one", "urn:uuid:6ba7b810-9dad-11d1-80b4-00c04fd430c8", "www.example.com",
			"2ed6657d-e927-568b-95e1-2665a8aea6a2",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := makeKey(t, DerivedKeys(c.namespace), c.operation)
			require.Equal(t, c.want, id.String())
			require.Equal(t, uuid.Version(5), id.Version())
			require.Equal(t, uuid.RFC4122, id.Variant())
			require.Equal(t, id, makeKey(t, DerivedKeys(c.namespace), c.operation), "made anew, as after a restart")
		})
	}
}

func TestDerivedKeysRefuse(t *testing.T) {
	for _, c := range []struct{ name, namespace, operation, want string }{
		{"an empty namespace", "", "refund:1", "redo: DerivedKeys: the namespace is empty"},
		{
			"a request without an operation", "live", "",
			"redo: DerivedKeys: the request has no operation to derive a key from: use WithOperation",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			key, err := DerivedKeys(c.namespace)(c.operation)
			require.EqualError(t, err, c.want)
			require.Empty(t, key)
		})
	}
}
