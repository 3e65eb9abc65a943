package store_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/racetest"
	"github.com/redo-go/redo/store"
)

// Two bodies that one encoder wrote in two ways are one payload; another number is another payload.
func ExampleCanonicalJSON() {
	sum := func(body string) store.Fingerprint {
		f, err := store.CanonicalJSON("POST", "/refunds", "", []byte(body))
		if err != nil {
			fmt.Println(err)
		}
		return f
	}
	first := sum(`{"charge":"ch_9ab","amount":1000}`)
	fmt.Println(first == sum(`{ "amount": 1000, "charge": "ch_9\u0061b" }`))
	fmt.Println(first == sum(`{"charge":"ch_9ab","amount":1001}`))
	sum(`{"amount":1000,"amount":1}`)
	// Output:
	// true
	// false
	// store: body has no canonical JSON form: duplicate member: "amount" at byte 15
}

func ExampleRaw() {
	f := store.Raw("POST", "/refunds", "", []byte(`{"amount":1000}`))
	same, err := store.ParseFingerprint(f.String())
	fmt.Println(same == f, err)
	// Output:
	// true <nil>
}

func canonical(t *testing.T, method, path, query, body string) store.Fingerprint {
	t.Helper()
	f, err := store.CanonicalJSON(method, path, query, []byte(body))
	require.NoError(t, err)
	return f
}

func TestEveryPartCounts(t *testing.T) {
	for name, sum := range map[string]func(method, path, query, body string) store.Fingerprint{
		"raw":       func(m, p, q, b string) store.Fingerprint { return store.Raw(m, p, q, []byte(b)) },
		"canonical": func(m, p, q, b string) store.Fingerprint { return canonical(t, m, p, q, b) },
	} {
		t.Run(name, func(t *testing.T) {
			base := sum("POST", "/a", "x=1", "1")
			require.Equal(t, base, sum("POST", "/a", "x=1", "1"))
			seen := map[store.Fingerprint]string{base: "the base"}
			for what, f := range map[string]store.Fingerprint{
				"method":                        sum("PATCH", "/a", "x=1", "1"),
				"path":                          sum("POST", "/b", "x=1", "1"),
				"query":                         sum("POST", "/a", "x=2", "1"),
				"body":                          sum("POST", "/a", "x=1", "2"),
				"the boundary of method, path":  sum("POST/", "a", "x=1", "1"),
				"the boundary of path, query":   sum("POST", "/ax", "=1", "1"),
				"the boundary of query, body":   sum("POST", "/a", "x=", "11"),
				"a part that moved to the next": sum("POST", "", "/ax=1", "1"),
				"an empty body":                 sum("POST", "/a", "x=1", ""),
				"all in the method":             sum("POST/ax=1", "", "", "1"),
			} {
				require.NotContains(t, seen, f, "%s is like %s", what, seen[f])
				seen[f] = what
			}
		})
	}
}

func TestVersions(t *testing.T) {
	body := `{"a":1}`
	raw, form := store.Raw("POST", "/", "", []byte(body)), canonical(t, "POST", "/", "", body)
	require.Equal(t, store.RawV1, raw.Version())
	require.Equal(t, store.CanonicalJSONV1, form.Version())
	require.NotEqual(t, raw[1:], form[1:], "the version is hashed too")
	require.Zero(t, store.Fingerprint{}.Version())

	empty := canonical(t, "POST", "/", "", "")
	require.Equal(t, store.CanonicalJSONV1, empty.Version())
	require.NotEqual(t, store.Raw("POST", "/", "", nil), empty)
	require.Equal(t, store.Raw("POST", "/", "", nil), store.Raw("POST", "/", "", []byte{}))
}

func TestNumbersAreNotRounded(t *testing.T) {
	for _, pair := range [][2]string{
		{"9007199254740993", "9007199254740992"}, {"1.0", "1"}, {"1e2", "100"}, {"-0", "0"},
	} {
		require.NotEqual(t, canonical(t, "POST", "/", "", pair[0]), canonical(t, "POST", "/", "", pair[1]), pair)
	}
}

// The fingerprint outlives the process in a store, so its bytes are part of the contract. Each value is the
// SHA-256 of the version, of the three length-prefixed parts and of the body.
func TestFingerprintsAreStable(t *testing.T) {
	require.Equal(t, "01f541b4be420285141f5f4ae5a4b20dc881b2609e9e74c9b298eaf77d4f3df137",
		store.Raw("POST", "/refunds", "dry=1", []byte(`{"b":1, "a":2}`)).String())
	require.Equal(t, "02bbadb60ad1bbc634b5a13971e4b267290f9f93997328f1228005b03519421776",
		canonical(t, "POST", "/refunds", "dry=1", `{"b":1, "a":2}`).String())
}

func TestSizeMakesNoDifferenceToTheSum(t *testing.T) {
	// Small and large inputs take two ways through the code; a long path of a small body is the border.
	for size := range 1200 {
		path, body := "/"+strings.Repeat("p", size/2), bytes.Repeat([]byte("b"), size)
		require.Equal(t, slowSum(store.RawV1, "POST", path, "", body), store.Raw("POST", path, "", body), size)
	}
}

// slowSum states the algorithm without the shortcuts.
func slowSum(version byte, method, path, query string, body []byte) store.Fingerprint {
	in := []byte{version}
	for _, part := range []string{method, path, query} {
		in = append(binary.AppendUvarint(in, uint64(len(part))), part...)
	}
	h := sha256.Sum256(append(in, body...))
	return store.Fingerprint(append([]byte{version}, h[:]...))
}

func TestRawOfASmallBodyDoesNotAllocate(t *testing.T) {
	body := bytes.Repeat([]byte("x"), 256)
	var f store.Fingerprint
	require.Zero(t, testing.AllocsPerRun(100, func() { f = store.Raw("POST", "/v1/refunds", "expand=charge", body) }))
	require.False(t, f.IsZero())
}

func TestCanonicalOfASmallBodyAllocatesItsForm(t *testing.T) {
	if racetest.Enabled {
		t.Skip("a sync.Pool keeps nothing for certain under the race detector")
	}
	body := []byte(`{"amount":1000,"charge":"ch_9ab","metadata":{"order":"1138"}}`)
	var f store.Fingerprint
	require.Equal(t, 1.0, testing.AllocsPerRun(100, func() {
		f, _ = store.CanonicalJSON("POST", "/v1/refunds", "", body)
	}))
	require.False(t, f.IsZero())
}

func TestFingerprintText(t *testing.T) {
	f := store.Raw("POST", "/", "", nil)
	got, err := store.ParseFingerprint(f.String())
	require.NoError(t, err)
	require.Equal(t, f, got)
	zero, err := store.ParseFingerprint(store.Fingerprint{}.String())
	require.NoError(t, err)
	require.True(t, zero.IsZero())

	for name, text := range map[string]string{
		"empty":           "",
		"too short":       f.String()[2:],
		"too long":        f.String() + "00",
		"not hexadecimal": "zz" + f.String()[2:],
	} {
		t.Run(name, func(t *testing.T) {
			got, err := store.ParseFingerprint(text)
			require.Error(t, err)
			require.True(t, got.IsZero())
		})
	}
}
