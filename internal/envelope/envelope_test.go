package envelope_test

import (
	"testing"
	"time"

	"github.com/redo-go/redo/internal/envelope"
	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
)

func TestRecordRoundTrip(t *testing.T) {
	for _, own := range []int{0, 12} {
		for name, r := range map[string]store.Record{
			"full": {
				State: store.StateFailed, Fingerprint: store.Raw("POST", "/", "", nil),
				Fence: 1<<64 - 1, Owner: "owner",
				CreatedAt: time.Unix(0, -1), LeaseUntil: envelope.LastInstant, ExpiresAt: time.Unix(0, 42),
				Meta: []byte("meta"), Result: []byte("result"),
			},
			"nil content":   {State: store.StatePending, Fence: 1},
			"empty content": {State: store.StateComplete, Meta: []byte{}, Result: []byte{}},
			"meta alone":    {State: store.StatePending, Meta: []byte("m")},
		} {
			v := envelope.AppendHead(nil, 1, &r, 7)
			require.Len(t, v, envelope.HeadSize)
			v = append(v, make([]byte, own)...)
			v = append(append(append(v, r.Owner...), r.Meta...), r.Result...)
			got, epoch, err := envelope.Parse(v, envelope.HeadSize+own)
			require.NoError(t, err, name)
			require.Equal(t, r, got, name)
			require.EqualValues(t, 7, epoch)
		}
	}
}

func TestHeadThatBreaksARuleIsRefused(t *testing.T) {
	r := store.Record{State: store.StatePending, Owner: "owner", Meta: []byte("meta")}
	v := append(envelope.AppendHead(nil, 1, &r, 7), "ownermeta"...)
	for name, spoil := range map[string]func(v []byte) []byte{
		"short":                   func(v []byte) []byte { return v[:envelope.HeadSize-1] },
		"a state of zero":         func(v []byte) []byte { v[5] = 0; return v },
		"a state of four":         func(v []byte) []byte { v[5] = 4; return v },
		"an unknown flag":         func(v []byte) []byte { v[6] |= 4; return v },
		"meta without its flag":   func(v []byte) []byte { v[6] = 0; return v },
		"less content":            func(v []byte) []byte { return v[:len(v)-1] },
		"a result without a flag": func(v []byte) []byte { return append(v, 0) },
	} {
		_, _, err := envelope.Parse(spoil(append([]byte{}, v...)), envelope.HeadSize)
		require.Error(t, err, name)
	}
	_, _, err := envelope.Parse(v, envelope.HeadSize)
	require.NoError(t, err)
}

func TestStateOutlivesTheProcess(t *testing.T) {
	want := envelope.State{Fence: 1 << 40, Epoch: 3}
	v := want.Append([]byte("before"))[len("before"):]
	got, err := envelope.ParseState(v)
	require.NoError(t, err)
	require.Equal(t, want, got)
	_, err = envelope.ParseState(v[:len(v)-1])
	require.Error(t, err)
	v[0] ^= 1
	_, err = envelope.ParseState(v)
	require.Error(t, err)
}

func TestIndexKeySortsByInstant(t *testing.T) {
	early, late := envelope.AppendIndexKey(nil, 1, []byte("z")), envelope.AppendIndexKey(nil, 256, []byte("a"))
	require.Less(t, string(early), string(late))
	at, key, err := envelope.SplitIndexKey(late)
	require.NoError(t, err)
	require.EqualValues(t, 256, at)
	require.Equal(t, "a", string(key))
	_, _, err = envelope.SplitIndexKey(late[:envelope.InstantSize])
	require.Error(t, err, "it names no record")
}

func TestPendingRecordIsListedByItsCreation(t *testing.T) {
	at := time.Unix(0, 5)
	require.EqualValues(t, 5, envelope.Listed(store.Record{State: store.StatePending, CreatedAt: at}))
	require.Zero(t, envelope.Listed(store.Record{State: store.StateComplete, CreatedAt: at}))
	require.Zero(t, envelope.Listed(store.Record{}))
}

func TestTallyTellsSetsApart(t *testing.T) {
	var one, same, other envelope.Tally
	for _, key := range []string{"a", "b"} {
		one.Add([]byte(key))
	}
	for _, key := range []string{"b", "a"} {
		same.Add([]byte(key))
	}
	other.Add([]byte("a"))
	other.Add([]byte("c"))
	require.Equal(t, one, same)
	require.NotEqual(t, one, other)
}

func TestKeyIsInjective(t *testing.T) {
	ids := []store.ID{
		{Scope: "", Key: "ab"}, {Scope: "a", Key: "b"}, {Scope: "\x01a", Key: "b"}, {Scope: "", Key: "\x01ab"},
		{Scope: "a", Key: "bc"}, {Scope: "ab", Key: "c"},
	}
	seen := make(map[string]store.ID)
	for _, id := range ids {
		key := envelope.AppendKey(nil, id)
		require.NotContains(t, seen, string(key))
		seen[string(key)] = id
		got, err := envelope.ParseKey(key)
		require.NoError(t, err)
		require.Equal(t, id, got)
	}
}

func TestMalformedKeyIsRefused(t *testing.T) {
	for _, key := range []string{"", "\x00", "\x05abc", "\x80", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01k"} {
		_, err := envelope.ParseKey([]byte(key))
		require.Error(t, err, "%q", key)
	}
}

func TestRecordIsKeptWithinTheLastInstant(t *testing.T) {
	far := envelope.LastInstant.Add(time.Hour)
	near := envelope.LastInstant.Add(-time.Hour)
	got := envelope.Bounded(store.Record{LeaseUntil: far, ExpiresAt: far})
	require.Equal(t, store.Record{LeaseUntil: envelope.LastInstant, ExpiresAt: envelope.LastInstant}, got)
	fits := store.Record{LeaseUntil: near, ExpiresAt: near}
	require.Equal(t, fits, envelope.Bounded(fits))
	require.Zero(t, envelope.Bounded(store.Record{}))
}
