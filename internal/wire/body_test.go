package wire_test

import (
	"errors"
	"io"
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
	_, err = wire.ReadBody(iotest.DataErrReader(strings.NewReader("")), 0, 0)
	require.NoError(t, err)
	allocs := testing.AllocsPerRun(100, func() {
		_, err = wire.ReadBody(io.LimitReader(neverEnds{}, 4000), 4000, 4000)
	})
	require.NoError(t, err)
	require.LessOrEqual(t, allocs, 2.0, "the body, and the test's own reader")
}

type neverEnds struct{}

func (neverEnds) Read(p []byte) (int, error) { return len(p), nil }
