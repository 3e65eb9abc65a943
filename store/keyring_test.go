package store_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store"
)

// sealKey returns a key whose secret depends on its ID.
func sealKey(id string) store.SealKey {
	return store.SealKey{ID: id, Secret: bytes.Repeat([]byte(id), store.SealSecret)[:store.SealSecret]}
}

func keyring(t testing.TB, keys store.SealKeys) *store.Keyring {
	t.Helper()
	k, err := store.NewKeyring(keys)
	require.NoError(t, err)
	return k
}

func TestAKeyringRefusesWrongKeys(t *testing.T) {
	for name, c := range map[string]struct {
		keys store.SealKeys
		want string
	}{
		"no key": {store.SealKeys{}, "has 0 bytes, it must have 1 to 32"},
		"a long ID": {
			store.SealKeys{Seal: sealKey(strings.Repeat("x", 33))}, "has 33 bytes, it must have 1 to 32",
		},
		"a short secret": {
			store.SealKeys{Seal: store.SealKey{ID: "a", Secret: make([]byte, 16)}}, "has 16 bytes, it must have 32",
		},
		"one ID twice": {
			store.SealKeys{Seal: sealKey("a"), Open: []store.SealKey{sealKey("a")}}, `two seal keys have the ID "a"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := store.NewKeyring(c.keys)
			require.ErrorIs(t, err, store.ErrInvalid)
			require.ErrorContains(t, err, c.want)
		})
	}
	t.Run("and keeps the keys that it has", func(t *testing.T) {
		k := keyring(t, store.SealKeys{Seal: sealKey("a")})
		require.ErrorIs(t, k.Set(store.SealKeys{}), store.ErrInvalid)
		require.NoError(t,
			k.Set(store.SealKeys{Seal: sealKey(strings.Repeat("x", 32)), Open: []store.SealKey{sealKey("a")}}))
	})
}

func TestASealKeyShowsNoSecret(t *testing.T) {
	key := store.SealKey{ID: "2026", Secret: []byte(strings.Repeat("hush", 8))}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		text := fmt.Sprintf(verb, key) + fmt.Sprintf(verb, []store.SealKey{key})
		require.Contains(t, text, "2026")
		require.NotContains(t, text, "hush", verb)
	}
	var log strings.Builder
	keys := store.SealKeys{Seal: key, Open: []store.SealKey{key}}
	slog.New(slog.NewJSONHandler(&log, nil)).Info("configured", "key", key, "keys", keys)
	require.Contains(t, log.String(), "2026")
	require.NotContains(t, log.String(), base64.StdEncoding.EncodeToString(key.Secret))

	var read store.SealKey
	require.NoError(t, json.Unmarshal([]byte(`{"ID":"2026","Secret":"aHVzaA=="}`), &read))
	require.Equal(t, store.SealKey{ID: "2026", Secret: []byte("hush")}, read, "a configuration can hold it")
}
