package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/stage"
)

// The test binary is the service too: the campaign starts copies of itself.
func TestMain(m *testing.M) {
	if stage.IsPart() {
		if err := stage.Play(serve); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// kills is the number of times that each mode's service is killed.
const kills = 100

// The record commits with the effect: whenever the service dies, each operation is in the ledger exactly once. In
// two steps, only keys that were taken over have two effects. A policy that reads the ledger first makes none
// twice.
func TestCampaign(t *testing.T) {
	url := cmp.Or(os.Getenv("REDO_TEST_POSTGRES"), here)
	db, err := openDatabase(t.Context(), url)
	if err != nil && os.Getenv("REDO_TEST_REQUIRE") == "" {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(db.Close)
	for _, m := range modes {
		t.Run(m.title, func(t *testing.T) {
			seed := rand.Uint64()
			c := campaign{mode: m, kills: kills, url: url, database: db, rand: rand.New(rand.NewPCG(seed, seed))}
			got, err := c.run(t.Context())
			require.NoError(t, err, "seed %d", seed)
			t.Logf("seed %d: %+v", seed, got)
			require.NoError(t, got.judge(m))
			require.Equal(t, kills, got.kills)
		})
	}
}

func TestTheTallySeesWhatIsWrong(t *testing.T) {
	transaction, rerun := modes[0], modes[2]
	require.True(t, rerun.mayRepeat)
	one := map[string]int64{"k": 1}
	for _, c := range []struct {
		rule           string
		mode           mode
		answered       map[string]int64
		effects, taken map[string]int
		want           string // of the error, empty for none
	}{
		{"one effect is right", transaction, one, map[string]int{"k": 1}, nil, ""},
		{"a success without an effect is a loss", rerun, one, nil, nil, "have no effect"},
		{
			"a second effect after a take-over is the gap of two steps", rerun, one, map[string]int{"k": 2},
			map[string]int{"k": 1}, "",
		},
		{
			"a second effect without a take-over is a fault", rerun, one, map[string]int{"k": 2}, nil,
			"without a take-over",
		},
		{
			"a take-over of another key excuses nothing", rerun, one, map[string]int{"k": 2},
			map[string]int{"other": 1}, "without a take-over",
		},
		{
			"one transaction makes nothing twice", transaction, one, map[string]int{"k": 2}, map[string]int{"k": 1},
			"made twice",
		},
		{
			"one transaction leaves nothing to take over", transaction, one, map[string]int{"k": 1},
			map[string]int{"k": 1}, "taken over",
		},
		{"no success proves nothing", transaction, nil, nil, nil, "no operation"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			err := counted(1, c.answered, c.effects, c.taken).judge(c.mode)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestWithoutPostgresTheErrorSaysWhatToDo(t *testing.T) {
	err := tell(t.Context(), []string{"-postgres", "postgres://app:secret@127.0.0.1:1/db"}, &strings.Builder{})
	require.ErrorContains(t, err, "no Postgres responds at 127.0.0.1:1; start one")
	require.NotContains(t, err.Error(), "secret")
}
