package redisstore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
)

// exampleRecord is a settled record as a script returns it.
var exampleRecord = "redo2c+" + "1795000000000001042" + "01795000000000007" + "1795000000000001" + "1795000000008" +
	strings.Repeat("p", len(store.Fingerprint{})) + "0000004" + "05" + "owner" + "meta" + "result"

var examplePending = "redo2p-" + strings.TrimSuffix(exampleRecord[7:], "result")

func TestParseRecord(t *testing.T) {
	id := store.ID{Scope: "scope", Key: "key"}
	r, err := parseRecord(exampleRecord, id)
	require.NoError(t, err)
	want := store.Record{
		ID: id, State: store.StateComplete, Fence: 1795000000000001042,
		Fingerprint: store.Fingerprint([]byte(strings.Repeat("p", len(store.Fingerprint{})))),
		Meta:        []byte("meta"), Result: []byte("result"),
		CreatedAt: time.UnixMicro(1795000000000001), ExpiresAt: time.UnixMilli(1795000000009),
	}
	require.Equal(t, want, r)

	t.Run("a pending record has an owner and a lease, and no result", func(t *testing.T) {
		r, err := parseRecord(examplePending, id)
		require.NoError(t, err)
		want.State, want.Result, want.Owner, want.LeaseUntil = store.StatePending, nil, "owner",
			time.UnixMicro(1795000000000007)
		require.Equal(t, want, r)
	})
	t.Run("nil and empty differ", func(t *testing.T) {
		r, err := parseRecord("redo2f+"+exampleRecord[7:105]+noMeta+"00", id)
		require.NoError(t, err)
		require.Nil(t, r.Meta)
		require.Equal(t, []byte{}, r.Result)
		r, err = parseRecord("redo2f-"+exampleRecord[7:105]+"000000000", id)
		require.NoError(t, err)
		require.Equal(t, []byte{}, r.Meta)
		require.Nil(t, r.Result)
	})
	for rule, text := range map[string]string{
		"another format":            "redo3" + exampleRecord[5:],
		"no state":                  "redo2x" + exampleRecord[6:],
		"no mark":                   "redo2cx" + exampleRecord[7:],
		"a waiter of a settled one": "redo2cw" + exampleRecord[7:],
		"a meta beyond the end":     strings.Replace(exampleRecord, "0000004", "0000011", 1),
		"a length that is none":     strings.Replace(exampleRecord, "0000004", "00004.0", 1),
		"a negative length":         strings.Replace(exampleRecord, "0000004", "-000004", 1),
		"an owner that is too long": strings.Replace(exampleRecord, "0000004"+"05", "0000004"+"16", 1),
		"a rest that is no result":  "redo2c-" + exampleRecord[7:],
		"a pending one's result":    examplePending + "result",
		"a fence that is none":      strings.Replace(exampleRecord, "042", " 42", 1),
		"a fence of 64 bits":        strings.Replace(exampleRecord, "1795000000000001042", "9223372036854775808", 1),
		"a fence beyond":            strings.Replace(exampleRecord, "1795000000000001042", "9999999999999999999", 1),
		"a creation that is signed": strings.Replace(exampleRecord, "7"+"1795000000000001", "7"+"+795000000000001", 1),
		"a record that is cut off":  exampleRecord[:113],
		"nothing":                   "",
	} {
		t.Run(rule+" is damage", func(t *testing.T) {
			require.NotEqual(t, exampleRecord, text)
			_, err := parseRecord(text, id)
			require.ErrorIs(t, err, store.ErrDamaged)
			require.ErrorIs(t, err, ErrFormat)
			require.ErrorIs(t, err, store.ErrUnavailable)
		})
	}
}

func FuzzRecord(f *testing.F) {
	f.Add(exampleRecord)
	f.Add(examplePending)
	f.Add(strings.Replace(exampleRecord, "0000004", noMeta, 1))
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parseRecord(text, store.ID{Key: "k"})
		switch {
		case err != nil && !errors.Is(err, store.ErrDamaged):
			t.Errorf("%q: %v", text, err)
		case err == nil && tailAt+len(r.Owner)+len(r.Meta)+len(r.Result) > len(text):
			t.Errorf("%q: more was read than there is", text)
		}
	})
}

func TestClaimArgs(t *testing.T) {
	meta := []byte("meta")
	c := store.Claim{Lease: time.Second + 1, Retention: time.Minute, Owner: "owner", Meta: meta}
	copy(c.Fingerprint[:], strings.Repeat("p", len(c.Fingerprint)))
	lease, retention, random, fields := claimArgs(c)
	meta[0] = 'M' // a later change by the caller changes no argument
	require.Equal(t, "1000001", lease, "rounded up")
	require.Equal(t, "60000000", retention)
	require.Regexp(t, "^[0-9]{6}$", random)
	require.Equal(t, strings.Repeat("p", len(c.Fingerprint))+"0000004"+"05"+"owner"+"meta", fields)

	c.Retention = time.Millisecond
	_, retention, _, _ = claimArgs(c)
	require.Equal(t, "1000001", retention, "a record lives as long as its lease")
	c = store.Claim{Retention: store.Forever}
	lease, retention, _, fields = claimArgs(c)
	require.Equal(t, []string{"0", "0"}, []string{lease, retention})
	require.Equal(t, noMeta+"00", fields[len(c.Fingerprint):])
	require.Equal(t, "0000000000000000007", fenceText(7))
	require.Equal(t, "18446744073709551615", fenceText(1<<64-1), "a fence that no record has")
}
