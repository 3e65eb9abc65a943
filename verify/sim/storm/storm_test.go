package storm

import (
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot/plotter"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/internal/racetest"
	"github.com/redo-go/redo/limit"
)

var plots = flag.String("plots", "", "write the plots into this directory, and print the tables")

// An outage of 30 s in two minutes. The server has a quarter more capacity than it needs.
var outage = scenario{
	processes: 10, perSecond: 40, capacity: 500, from: 30 * time.Second, to: 60 * time.Second, end: 2 * time.Minute,
}

func play(t *testing.T, sc scenario, p policy) (o outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var err error
		o, err = sc.play(p, 1)
		require.NoError(t, err)
	})
	return o
}

func named(t *testing.T, name string) policy {
	t.Helper()
	for _, p := range policies {
		if p.name == name {
			return p
		}
	}
	t.Fatalf("no policy %q", name)
	return policy{}
}

func TestDefaultAmplification(t *testing.T) {
	racetest.Repeats(t)
	o := play(t, outage, named(t, "full jitter and budget"))
	require.LessOrEqual(t, o.overall, 1.1)
	// In the outage itself the budget is a fifth of the calls, and the reserve of 100 retries in each process.
	require.LessOrEqual(t, o.inOutage, 1.3)
	require.Zero(t, o.recovered, "no request is refused after the outage")

	twin := play(t, outage, named(t, "full jitter"))
	require.Greater(t, twin.overall, 1.5)
}

// The checks see a storm where there is one.
func TestStormIsSeen(t *testing.T) {
	racetest.Repeats(t)
	o := play(t, outage, named(t, "go-retryablehttp"))
	require.Greater(t, o.after, 2*outage.processes*outage.perSecond)
	require.Positive(t, o.recovered)
}

// spent returns the use of a quota by one client, whose callers share it if shared is set.
func spent(t *testing.T, workers int, shared bool) (u usage) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var opts []redo.Option
		if shared {
			opts = append(opts, redo.WithLimiter(limit.PerDestination(func() limit.Limiter { return limit.NewQuotaLimiter() })))
		}
		var err error
		u, err = spend(workers, 20, 100, 10*time.Second, opts...)
		require.NoError(t, err)
	})
	return u
}

func TestQuotaIsUsed(t *testing.T) {
	u := spent(t, 1, false)
	require.LessOrEqual(t, u.most, 1, "refused requests in a window")
	require.GreaterOrEqual(t, u.used, 90.0)
}

func TestConcurrentCallersShareAQuota(t *testing.T) {
	for _, workers := range []int{1, 4, 16} {
		u := spent(t, workers, true)
		require.LessOrEqual(t, u.most, 1, "refused requests in a window")
		require.GreaterOrEqual(t, u.used, 90.0)
	}
	require.Greater(t, spent(t, 16, false).most, 1, "without the limiter each caller learns from a refusal of its own")
}

func TestPictures(t *testing.T) {
	if *plots == "" {
		t.Skip("no -plots")
	}
	loads := map[bool][]curve{}
	fmt.Println("| Policy | attempts per call | in the outage | peak in it | after it | last refusal | " +
		"failed calls | source |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for i, p := range policies {
		o := play(t, outage, p)
		c := curve{name: p.name}
		for second, n := range o.offered {
			c.points = append(c.points, plotter.XY{X: float64(second), Y: float64(n)})
		}
		loads[i < 3] = append(loads[i < 3], c)
		fmt.Printf("| %s | %.2f | %.2f | %d | %d | %v | %.0f %% | %s |\n",
			p.name, o.overall, o.inOutage, o.peak, o.after, o.recovered, o.failed, p.source)
	}
	const title = "Offered load: 400 calls/s, capacity 500/s, outage from 30 s to 60 s"
	require.NoError(t, draw(*plots, "storm-redo.svg", title, "s", "attempts per second", false, loads[true]...))
	peers := append(loads[false], loads[true][2])
	require.NoError(t, draw(*plots, "storm-peers.svg", title, "s", "attempts per second", false, peers...))

	fmt.Println("\n| Backoff, 100 contenders | calls | completion |\n|---|---|---|")
	var work, times []curve
	for _, b := range backoffs() {
		calls, took := curve{name: b.name}, curve{name: b.name}
		for n := 10; n <= 200; n += 10 {
			const rounds = 20
			var sum, all float64
			for seed := range uint64(rounds) {
				d, c := contend(b, n, seed)
				sum, all = sum+d.Seconds(), all+float64(c)
			}
			calls.points = append(calls.points, plotter.XY{X: float64(n), Y: all / rounds})
			took.points = append(took.points, plotter.XY{X: float64(n), Y: sum / rounds})
			if n == 100 {
				fmt.Printf("| %s | %.0f | %.1f s |\n", b.name, all/rounds, sum/rounds)
			}
		}
		work, times = append(work, calls), append(times, took)
	}
	const x = "contending clients"
	require.NoError(t, draw(*plots, "contention-calls.svg", "Work to update one row", x, "calls", true, work...))
	require.NoError(t, draw(*plots, "contention-time.svg", "Time to update one row", x, "s", true, times...))

	fmt.Println("\n| Concurrent callers | QuotaLimiter | quota used | refused per window | most |\n|---|---|---|---|---|")
	for _, shared := range []bool{false, true} {
		for _, workers := range []int{1, 4, 16} {
			u := spent(t, workers, shared)
			fmt.Printf("| %d | %t | %.0f %% | %.1f | %d |\n", u.workers, shared, u.used, u.refused, u.most)
		}
	}
}
