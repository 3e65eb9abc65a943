package wire

import (
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/racetest"
)

// A stored envelope outlives the program that wrote it: these bytes must stay readable, and the same.
func TestEnvelopeV1IsFrozen(t *testing.T) {
	for _, c := range []struct {
		name string
		resp Response
		hex  string
	}{
		{"no header and no body", Response{Status: 204, Header: http.Header{}}, "0100cc01000000"},
		{"an empty body", Response{Status: 200, Header: http.Header{}, Body: []byte{}}, "0101c801000000"},
		{
			"headers in order, several values, none, a body",
			Response{
				Status: 201, Header: http.Header{"Vary": {"A", ""}, "Etag": {`"x"`}, "X-Off": nil},
				Body: []byte("ok"),
			},
			"0101c90103031a" + "04457461670103227822" + "0456617279020141" + "00" + "05582d4f666600" + "6f6b",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.hex, hex.EncodeToString(AppendResponse(nil, c.resp)))
			b, err := hex.DecodeString(c.hex)
			require.NoError(t, err)
			got, err := DecodeResponse(b)
			require.NoError(t, err)
			require.Equal(t, c.resp, got)
		})
	}
	t.Run("a tombstone", func(t *testing.T) {
		b := AppendTombstone(nil, 201)
		require.Equal(t, "0102c901", hex.EncodeToString(b))
		got, err := DecodeResponse(b)
		require.ErrorIs(t, err, ErrNotStored)
		require.Equal(t, Response{Status: 201}, got)
	})
}

func TestAppendResponse(t *testing.T) {
	big := Response{Status: 200, Header: http.Header{}, Body: []byte("b")}
	for i := range 100 {
		big.Header["X-"+strconv.Itoa(i)] = []string{strconv.Itoa(i), "v"}
	}
	t.Run("is the same bytes each time, in any order of the map", func(t *testing.T) {
		want := AppendResponse(nil, big)
		for range 20 {
			require.Equal(t, want, AppendResponse(nil, big))
		}
		got, err := DecodeResponse(want)
		require.NoError(t, err)
		require.Equal(t, big, got)
	})
	t.Run("appends", func(t *testing.T) {
		require.Equal(t, append([]byte("x"), AppendResponse(nil, big)...), AppendResponse([]byte("x"), big))
	})
	t.Run("allocates once", func(t *testing.T) {
		if racetest.Enabled {
			t.Skip("the race detector allocates on its own")
		}
		// The envelope is just over 1024 bytes, so that a smaller first buffer does not hold it.
		r := Response{Status: 200, Header: http.Header{}, Body: make([]byte, 1024-6)}
		require.Equal(t, 1.0, testing.AllocsPerRun(10, func() { AppendResponse(nil, r) }))
	})
	t.Run("a nil header is read back as an empty one", func(t *testing.T) {
		got, err := DecodeResponse(AppendResponse(nil, Response{Status: 200}))
		require.NoError(t, err)
		require.Equal(t, Response{Status: 200, Header: http.Header{}}, got)
	})
}

func TestDecodeResponse(t *testing.T) {
	valid := AppendResponse(nil,
		Response{Status: 201, Header: http.Header{"A": {"1", "2"}, "B": {"3"}}, Body: []byte("body")})
	t.Run("a newer version is ErrVersion and never a guess", func(t *testing.T) {
		for _, version := range []byte{2, 255} {
			_, err := DecodeResponse(append([]byte{version}, valid[1:]...))
			require.ErrorIs(t, err, ErrVersion)
			require.NotErrorIs(t, err, ErrEnvelope)
		}
	})
	t.Run("version 0 was never written: it is ErrEnvelope", func(t *testing.T) {
		_, err := DecodeResponse(append([]byte{0}, valid[1:]...))
		require.ErrorIs(t, err, ErrEnvelope)
		require.NotErrorIs(t, err, ErrVersion)
	})
	t.Run("every cut of the header is ErrEnvelope", func(t *testing.T) {
		for n := range len(valid) - len("body") {
			_, err := DecodeResponse(valid[:n])
			require.ErrorIs(t, err, ErrEnvelope, "%d bytes", n)
		}
	})
	t.Run("counts that the bytes can't hold are refused before anything is allocated", func(t *testing.T) {
		for _, bomb := range [][]byte{
			{1, 0, 0xc8, 0x01, 0x80, 0x02, 0x80, 0x08, 0x80, 0x80, 0x40}, // 256 names, 1024 values, 1 MiB
			{1, 0, 0xc8, 0x01, 0, 0x80, 0x08, 0},                         // 1024 values in no bytes
			{1, 0, 0xc8, 0x01, 2, 0, 3, 0, 0, 0},                         // two names in three bytes
		} {
			_, err := DecodeResponse(bomb)
			require.ErrorIs(t, err, ErrEnvelope)
			require.ErrorContains(t, err, "do not fit")
			require.Less(t, testing.AllocsPerRun(10, func() { _, _ = DecodeResponse(bomb) }), 10.0)
		}
	})
	for _, c := range []struct {
		rule string
		hex  string
	}{
		{"nothing", ""},
		{"a version alone", "01"},
		{"an unknown kind", "0103c801000000"},
		{"a status below 200", "010064000000"},
		{"a status above 999", "0100e807000000"},
		{"a number written longer than needed", "0100c80180000000"},
		{"a body that is marked as absent", "0100c801000000ff"},
		{"bytes after a tombstone", "0102c80100"},
		{"names out of order", "0100c801020006" + "014200" + "014100"},
		{"the same name twice", "0100c801020006" + "014100" + "014100"},
		{"a string longer than its section", "0100c801010003" + "054100"},
		{"more values in use than announced", "0100c801010005" + "0141010131"},
		{"fewer values in use than announced", "0100c801010103" + "014100"},
		{"a section that is not filled", "0100c801010004" + "01410000"},
	} {
		t.Run(c.rule+" is ErrEnvelope", func(t *testing.T) {
			b, err := hex.DecodeString(c.hex)
			require.NoError(t, err)
			_, err = DecodeResponse(b)
			require.ErrorIs(t, err, ErrEnvelope)
		})
	}
}

func TestResponseCheck(t *testing.T) {
	names, values := http.Header{}, http.Header{"A": make([]string, MaxHeaderValues+1)}
	for i := range MaxHeaderNames + 1 {
		names[strconv.Itoa(i)] = nil
	}
	require.NoError(t, Response{Status: 200}.Check())
	require.ErrorContains(t, Response{Status: 199}.Check(), "status 199")
	require.ErrorContains(t, Response{Status: 1000}.Check(), "status 1000")
	require.ErrorIs(t, Response{Status: 200, Header: names}.Check(), ErrTooLarge)
	require.ErrorIs(t, Response{Status: 200, Header: values}.Check(), ErrTooLarge)
	require.ErrorIs(t, Response{Status: 200, Header: http.Header{"A": {strings.Repeat("x", MaxHeaderBytes)}}}.Check(),
		ErrTooLarge)
	delete(names, "0")
	for _, r := range []Response{
		{Status: 999, Header: names}, {Status: 200, Header: http.Header{"A": make([]string, MaxHeaderValues)}},
		{Status: 200, Header: http.Header{"A": {strings.Repeat("x", MaxHeaderBytes-len("\x01A\x01\x80\x80\x40"))}}},
		{Status: 200, Header: http.Header{"": nil}},
	} {
		require.NoError(t, r.Check())
		got, err := DecodeResponse(AppendResponse(nil, r))
		require.NoError(t, err, "a response that Check allows is read back")
		require.Equal(t, r, got)
	}
}

func FuzzDecodeResponse(f *testing.F) {
	f.Add(AppendResponse(nil, Response{Status: 201, Header: http.Header{"A": {"1", "2"}}, Body: []byte("body")}))
	f.Add(AppendTombstone(nil, 200))
	f.Add([]byte{1, 0, 0xc8, 1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeResponse(b)
		if err != nil {
			return
		}
		require.NoError(t, r.Check())
		require.Equal(t, b, AppendResponse(nil, r), "one response has one envelope")
	})
}
