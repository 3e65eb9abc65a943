package wire_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/wire"
)

func TestReadBody(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for _, length := range []int64{-1, 0, 1, int64(len(long))} {
		b, err := wire.ReadBody(iotest.OneByteReader(strings.NewReader(long)), length, len(long))
		require.NoError(t, err)
		require.Equal(t, long, string(b))
		_, err = wire.ReadBody(strings.NewReader(long), length, len(long)-1)
		require.ErrorIs(t, err, wire.ErrBodyTooLarge)
	}
	_, err := wire.ReadBody(iotest.ErrReader(errors.New("read for nothing")), 11, 10)
	require.ErrorIs(t, err, wire.ErrBodyTooLarge)
	_, err = wire.ReadBody(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader(long))), -1, 10)
	require.ErrorIs(t, err, iotest.ErrTimeout)
	_, err = wire.ReadBody(io.MultiReader(strings.NewReader("12345"), iotest.ErrReader(io.ErrUnexpectedEOF)), -1, 4)
	require.ErrorIs(t, err, wire.ErrBodyTooLarge, "one byte over the limit is enough")
	_, err = wire.ReadBody(iotest.DataErrReader(strings.NewReader("")), 0, 0)
	require.NoError(t, err)
	allocs := testing.AllocsPerRun(100, func() {
		_, err = wire.ReadBody(io.LimitReader(neverEnds{}, 4000), 4000, 4000)
	})
	require.NoError(t, err)
	require.LessOrEqual(t, allocs, 2.0, "the body, and the test's own reader")
}

func TestReadHead(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for _, limit := range []int{0, 1, 511, 512, 513, 4999, 5000, 5001, -1} {
		for _, length := range []int64{-1, 0, 1, 511, 5000, math.MaxInt64} {
			b, err := wire.ReadHead(iotest.HalfReader(strings.NewReader(long)), length, limit)
			require.NoError(t, err)
			want := limit
			if limit < 0 || limit > len(long) {
				want = len(long)
			}
			require.Len(t, b, want, "Content-Length %d", length)
		}
	}
	b, err := wire.ReadHead(io.MultiReader(strings.NewReader("head"), iotest.ErrReader(io.ErrUnexpectedEOF)), -1, 10)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, "head", string(b), "the bytes before an error are kept")
	b, err = wire.ReadHead(io.MultiReader(strings.NewReader("head"), iotest.ErrReader(io.ErrUnexpectedEOF)), -1, 4)
	require.NoError(t, err, "bytes after the limit are not read")
	require.Equal(t, "head", string(b))
}

type neverEnds struct{}

func (neverEnds) Read(p []byte) (int, error) { return len(p), nil }

// A sender that only announces a large body must not make the reader take memory for it.
func TestReadBodyTakesMemoryAsDataArrives(t *testing.T) {
	const arrived = 100
	for _, length := range []int64{1 << 20, math.MaxInt32 - 1, 1 << 40, math.MaxInt64 - 1, math.MaxInt64} {
		if int64(int(length)) != length {
			continue // over every limit
		}
		body := iotest.OneByteReader(strings.NewReader(strings.Repeat("x", arrived)))
		used := allocated(func() {
			b, err := wire.ReadBody(body, length, math.MaxInt)
			require.NoError(t, err)
			require.Len(t, b, arrived)
		})
		require.Less(t, used, uint64(96<<10), "Content-Length: %d", length)
	}
}

// A body that is as long as announced arrives whole, and its buffers add up to about twice its size.
func TestReadBodyReadsLargeBodyWhole(t *testing.T) {
	for _, size := range []int{1000, mostRoom - 1, mostRoom, mostRoom + 1, 3*mostRoom + 7, 4 << 20} {
		want := bytes.Repeat([]byte("0123456789abcdef!"), size/17+1)[:size]
		for _, length := range []int64{-1, 0, 1, int64(size)} {
			var got []byte
			used := allocated(func() {
				var err error
				got, err = wire.ReadBody(bytes.NewReader(want), length, 2*size)
				require.NoError(t, err)
			})
			require.True(t, bytes.Equal(want, got), "%d bytes, Content-Length: %d", size, length)
			require.LessOrEqual(t, cap(got), 2*size)
			require.Less(t, used, uint64(4*size+64<<10))
			if length == int64(size) {
				require.Equal(t, size+1, cap(got), "the last buffer has the announced size")
			}
			if length == int64(size) && size < mostRoom {
				require.Less(t, used, uint64(size+32<<10), "there is one buffer")
			}
			_, err := wire.ReadBody(bytes.NewReader(want), min(length, int64(size-1)), size-1)
			require.ErrorIs(t, err, wire.ErrBodyTooLarge)
		}
	}
}

// mostRoom is the size of the largest first buffer.
const mostRoom = 64 << 10

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
