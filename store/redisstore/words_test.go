package redisstore

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/stretchr/testify/require"
)

func TestWords(t *testing.T) {
	t.Run("each is cut out as it was written", func(t *testing.T) {
		held := []byte("held")
		w := words{}.bytes(held).micros(time.Hour).bytes(nil).padded(7, 3).retention(store.Forever).cut()
		copy(held, "late")
		require.Equal(t, [maxWords]string{"held", "3600000000", "", "007", "-1"}, w)
	})
	t.Run("the longest take no more room than there is", func(t *testing.T) {
		w := words{}.bytes(make([]byte, len(store.Fingerprint{}))).micros(math.MaxInt64).retention(math.MaxInt64-1).padded(math.MaxUint64, fenceDigits).metaLength(nil)
		require.Len(t, w.ends, w.n)
		require.LessOrEqual(t, len(w.text), wordsRoom)
	})
	t.Run("a fence that is no record's gives no record's text", func(t *testing.T) {
		for fence, want := range map[uint64]string{
			0: strings.Repeat("0", fenceDigits), 42: strings.Repeat("0", fenceDigits-2) + "42",
			1795000000000001042: "1795000000000001042", math.MaxUint64: "18446744073709551615",
		} {
			require.Equal(t, want, fenceText(fence))
		}
	})
	t.Run("chance is six digits", func(t *testing.T) {
		for range 1000 {
			require.Regexp(t, `^[0-9]{6}$`, words{}.chance().cut()[0])
		}
	})
	t.Run("nil and empty are told apart", func(t *testing.T) {
		require.Equal(t, [maxWords]string{noMeta, "0000000", "0000012"},
			words{}.metaLength(nil).metaLength([]byte{}).metaLength(make([]byte, 12)).cut())
	})
}

func TestMicros(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                    "0",
		1:                    "1",
		time.Microsecond:     "1",
		time.Microsecond + 1: "2",
		time.Hour:            "3600000000",
		math.MaxInt64 - 1:    "9223372036854776",
	} {
		require.Equal(t, [maxWords]string{want, want}, words{}.micros(d).retention(d).cut(), d)
	}
	require.Equal(t, "-1", words{}.retention(store.Forever).cut()[0])
}
