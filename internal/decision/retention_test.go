package decision

import (
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHowLongAKeyMayBeSent(t *testing.T) {
	for _, c := range []struct {
		name    string
		known   time.Duration
		learned []time.Duration
		want    time.Duration
	}{
		{"the margin is an hour", 24 * time.Hour, nil, 23 * time.Hour},
		{"a short retention has a margin of an eighth", 4 * time.Hour, nil, 210 * time.Minute},
		{"a shorter one is learned", 24 * time.Hour, []time.Duration{8 * time.Hour}, 7 * time.Hour},
		{"a longer one is not", 24 * time.Hour, []time.Duration{48 * time.Hour}, 23 * time.Hour},
		{
			"the shortest counts", 24 * time.Hour, []time.Duration{16 * time.Hour, 8 * time.Hour, 12 * time.Hour},
			7 * time.Hour,
		},
		{"none is ignored", 24 * time.Hour, []time.Duration{0, -time.Hour}, 23 * time.Hour},
		{"none forgets nothing", 24 * time.Hour, []time.Duration{8 * time.Hour, 0}, 7 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r Retention
			r.Know(c.known)
			for _, d := range c.learned {
				r.Learn(d)
			}
			require.Equal(t, c.want, r.Usable())
		})
	}
}

func TestOnlyAKeyGrowsOld(t *testing.T) {
	var r Retention
	r.Know(8 * time.Hour)
	born := time.Now()
	for _, now := range []time.Time{born.Add(time.Hour), born.Round(0).Add(time.Hour)} { // the second has one clock
		require.Equal(t, 6*time.Hour, r.Left(true, born, now))
		require.Equal(t, time.Duration(math.MaxInt64), r.Left(false, born, now))
	}
	require.Equal(t, 7*time.Hour+time.Minute, r.Left(true, born, born.Add(-time.Minute)))
}

func TestTheShortestIsLearnedConcurrently(t *testing.T) {
	var r Retention
	r.Know(24 * time.Hour)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 1000 {
				r.Learn(time.Duration(8000-1000*i-j) * time.Minute)
			}
		})
	}
	wg.Wait()
	require.Equal(t, time.Minute*7/8, r.Usable())
}
