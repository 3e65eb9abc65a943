package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/racetest"
	"github.com/redo-go/redo/internal/stage"
	"github.com/redo-go/redo/verify/internal/dbserver"
)

// TestMain lets the test binary be any of the processes, as the program itself is.
func TestMain(m *testing.M) {
	_ = mysql.SetLogger(&mysql.NopLogger{}) // connections are broken on purpose
	if stage.IsPart() {
		if err := stage.Play(play); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// By default a process sleeps for a second before it ends under -race.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	// Rounds wait more than they compute. A flag on the command line overrides it.
	if err := flag.Set("test.parallel", "3"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// newRound returns a round over a new engine. The test is skipped if the engine is not installed.
func newRound(t *testing.T, storeName, modeName string, kills int) round {
	t.Helper()
	m, err := modeOf(modeName)
	require.NoError(t, err)
	e, err := startEngine(storeName)
	if errors.Is(err, dbserver.ErrMissing) && os.Getenv("REDO_TEST_REQUIRE") != "1" {
		t.Skip(err)
	}
	require.NoError(t, err)
	if e != nil {
		t.Cleanup(func() { require.NoError(t, e.Close()) })
	}
	return round{
		place: place{Store: storeName}, mode: m, seed: rand.Uint64(), kills: kills,
		dir: filepath.Join(t.TempDir(), "round"), engine: e,
	}
}

// Processes are killed and stopped at random moments, and so are the engines. Each operation has one effect, or a
// second one in the documented gap, and nothing is lost, changed or stuck.
func TestCampaign(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		store, mode string
		kills       int
	}{
		{"boltstore", "transaction", 30},
		{"boltstore", "recover", 30},
		{"redis", "recover", 40},
		{"postgres", "transaction", 40},
		{"mysql", "transaction", 40},
		{"sqlstore", "rerun", 20},
		{"pebblestore", "refuse", 20},
	} {
		t.Run(c.store+" "+c.mode, func(t *testing.T) {
			t.Parallel()
			if c.store != "boltstore" {
				racetest.Repeats(t)
			}
			if racetest.Enabled {
				c.kills = 10
			}
			r := newRound(t, c.store, c.mode, c.kills)
			got, err := r.play(t.Context())
			require.NoError(t, err)
			t.Logf("seed %d: %+v", r.seed, got)
			require.Equal(t, c.kills, got.Kills)
			if r.place.announces() && r.mode.events {
				require.Equal(t, got.Effects, got.Handled)
			}
		})
	}
}

// Each planted defect breaks its rule. TestCampaign has the same processes without the defect.
func TestDefects(t *testing.T) {
	t.Parallel()
	racetest.Repeats(t)
	for _, c := range []struct {
		defect, store, mode string
		only                string // the part that is harmed; "": all
		kills               int
		broken              func(tally) int
	}{
		{released, "boltstore", "recover", "", 5, func(t tally) int { return t.Duplicates }},
		{released, "boltstore", "rerun", "", 5, func(t tally) int { return t.Duplicates }},
		{early, "boltstore", "recover", "service", 10, func(t tally) int { return t.Losses }},
		{freshKeys, "boltstore", "transaction", "", 5, func(t tally) int { return min(t.ChangedKeys, t.Duplicates) }},
		{forgetful, "boltstore", "transaction", "client", 5, func(t tally) int { return t.ChangedKeys }},
		{noInbox, "boltstore", "transaction", "", 10, func(t tally) int { return t.Duplicates }},
	} {
		t.Run(c.defect+" "+c.mode, func(t *testing.T) {
			t.Parallel()
			var r round
			var got tally
			var err error
			for try := 0; try < 5 && err == nil; try++ { // on a busy machine a round may do too little to find it
				r = newRound(t, c.store, c.mode, c.kills)
				r.defect, r.only = c.defect, c.only
				got, err = r.play(t.Context())
			}
			require.ErrorIs(t, err, errBroken)
			t.Logf("%+v: %v", got, err)
			require.Positive(t, c.broken(got))
			for _, part := range []string{c.store, r.mode.title, fmt.Sprint(r.seed), r.dir, "op"} {
				require.ErrorContains(t, err, part)
			}
			require.FileExists(t, filepath.Join(r.dir, "violations"))
		})
	}
}

// A stopped process makes its effect after another one has taken its key over, unless the ledger refuses that.
func TestLedgerWithoutFences(t *testing.T) {
	t.Parallel()
	racetest.Repeats(t)
	for _, defect := range []string{"", unfenced} {
		t.Run("defect "+defect, func(t *testing.T) {
			t.Parallel()
			for range 12 { // or until it is found; on a busy machine half of the rounds find it
				r := newRound(t, "sqlstore", "recover", 2)
				r.defect, r.work, r.stops, r.stop, r.only = defect, 200*time.Millisecond, 80, 2*time.Second, "service"
				got, err := r.play(t.Context())
				t.Logf("%+v: %v", got, err)
				switch {
				case defect == "":
					require.NoError(t, err)
					return
				case err != nil:
					require.ErrorIs(t, err, errBroken)
					require.Positive(t, got.Duplicates)
					return
				}
			}
			require.Fail(t, "the defect was not found")
		})
	}
}

// A campaign that ends early goes on with its next round, and prints the sum of all rounds.
func TestCampaignIsResumed(t *testing.T) {
	t.Parallel()
	racetest.Repeats(t)
	dir := t.TempDir()
	play := func(ctx context.Context, kills int) (string, error) {
		var out strings.Builder
		err := tell(ctx, []string{
			"-store", "boltstore", "-mode", "rerun", "-kills", fmt.Sprint(kills), "-round", "4", "-state", dir,
		}, &out)
		return out.String(), err
	}
	first, err := play(t.Context(), 4)
	require.NoError(t, err)
	require.Contains(t, first, "0 kills are done\nround 1  two steps, run again")

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = play(ended, 8)
	require.ErrorIs(t, err, context.Canceled)

	second, err := play(t.Context(), 8)
	require.NoError(t, err)
	require.Contains(t, second, "4 kills are done\nround 2  two steps, run again   kills=8/8")
	require.NotContains(t, second, "round 1 ")
	s, err := openState(dir, "boltstore", 0)
	require.NoError(t, err)
	require.Equal(t, 8, s.kills())
	require.Equal(t, 2, s.Modes["rerun"].Rounds)
	_, err = openState(dir, "redis", 0)
	require.ErrorContains(t, err, "is of a campaign over boltstore")
}

func TestWrongFlagsAreRefused(t *testing.T) {
	for args, want := range map[string]string{
		"-store tape":                          `-store "tape": it must be one of boltstore, pebblestore`,
		"-kills 0":                             "they must be positive",
		"-mode hope":                           `there is no mode "hope"`,
		"-store pebblestore -mode transaction": "pebblestore has no transactions",
	} {
		require.ErrorContains(t, tell(t.Context(), strings.Fields(args), &strings.Builder{}), want)
	}
}
