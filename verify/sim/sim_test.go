package sim

import (
	"flag"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	oneSeed   = flag.Int64("seed", -1, "play only this seed, and print its event log")
	oneDefect = flag.String("defect", "", "with -seed: the planted defect; \"twin of \" and its name for its twin")
	manySeeds = flag.Uint64("seeds", defaultSeeds, "the number of seeds that TestSeeds plays")
	firstSeed = flag.Uint64("first", 0, "the first seed that TestSeeds plays")
)

// run plays a seed in a separate bubble.
func run(t *testing.T, seed uint64, d defect, logging bool) (res result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var err error
		res, err = play(t.Context(), seed, d, logging)
		require.NoError(t, err)
	})
	return res
}

// fail prints the broken rule, and the command that replays the seed.
func fail(t *testing.T, seed uint64, v *violation) {
	t.Helper()
	t.Errorf("seed %d breaks a rule after %v: %s: %s\nreplay: go test ./verify/sim -run 'TestSeed$' -seed=%d -v",
		seed, v.at, v.rule, v.detail, seed)
}

func TestSeed(t *testing.T) {
	if *oneSeed < 0 {
		t.Skip("no -seed")
	}
	var d defect
	for _, planted := range slices.Concat(clientDefects, serverDefects, eventDefects) {
		if planted.name == strings.TrimPrefix(*oneDefect, "twin of ") {
			if d = planted; d.name != *oneDefect {
				d = planted.twin()
			}
		}
	}
	res := run(t, uint64(*oneSeed), d, true)
	t.Log("\n" + res.text)
	if res.broken != nil {
		fail(t, uint64(*oneSeed), res.broken)
	}
}

func TestSeeds(t *testing.T) {
	began := time.Now()
	var operations, sends, effects, acknowledged int
	var elapsed time.Duration
	for seed := *firstSeed; seed < *firstSeed+*manySeeds; seed++ {
		res := run(t, seed, defect{}, false)
		if res.broken != nil {
			fail(t, seed, res.broken)
		}
		operations += res.operations
		sends += res.sends
		effects += res.effects
		acknowledged += res.acknowledged
		elapsed += res.elapsed
		if n := seed - *firstSeed + 1; n%10_000 == 0 {
			t.Logf("%d seeds in %v", n, time.Since(began).Round(time.Second))
		}
	}
	t.Logf("%d seeds in %v: %d operations, %d requests, %d effects, %d acknowledged, %v of virtual time, %d CPUs",
		*manySeeds, time.Since(began).Round(time.Millisecond), operations, sends, effects, acknowledged,
		elapsed.Round(time.Hour), runtime.GOMAXPROCS(0))
	require.Positive(t, effects)
}

// A seed makes the same events each time.
func TestReplay(t *testing.T) {
	for seed := range uint64(20) {
		first := run(t, seed, defect{}, true)
		again := run(t, seed, defect{}, true)
		require.Equal(t, first.text, again.text, "seed %d", seed)
	}
}

// Seeds that broke a rule once.
func TestFoundSeeds(t *testing.T) {
	for _, seed := range []uint64{18518, 56278, 59202, 59708} {
		if res := run(t, seed, defect{}, false); res.broken != nil {
			fail(t, seed, res.broken)
		}
	}
}
