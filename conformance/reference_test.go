package conformance

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/racetest"
	"github.com/redo-go/redo/server"
)

// longLease is a lease that a busy machine renews in time.
const longLease = 10 * time.Second

func TestReferencePassesInEveryStoreModeAndProfile(t *testing.T) {
	t.Parallel() // runs spend their time waiting
	type variety struct{ store, mode, profile string }
	var all []variety
	var targets []Target
	for _, store := range []string{"memstore", "boltstore"} {
		for _, mode := range []string{"409", "425", "wait"} {
			for _, profile := range []string{"redo", "ietf", "stripe"} {
				l := newLab(t)
				if store == "boltstore" {
					l.inBolt(t)
				}
				switch mode {
				case "425":
					l.options = append(l.options, server.InFlightStatus(http.StatusTooEarly))
				case "wait":
					l.options = append(l.options, server.Wait(20*time.Second))
				}
				switch profile {
				case "ietf":
					l.options = append(l.options, server.IETFStatuses())
				case "stripe":
					l.options = append(l.options, keepServerErrors())
					l.front = stripeStatuses
				}
				// The runs share the machine and its disk, and a lease that is granted after half of its time is refused.
				l.options = append(l.options, server.LeaseTTL(longLease))
				target := l.start().target()
				target.Profile, target.Crash.Lease = profile, Duration(longLease+time.Second)
				all, targets = append(all, variety{store, mode, profile}), append(targets, target)
			}
		}
	}
	all, targets = racetest.Sample(all), racetest.Sample(targets)
	for i, report := range runAll(t, targets) {
		t.Run(all[i].store+" "+all[i].mode+" "+all[i].profile, func(t *testing.T) {
			for _, res := range report.Results {
				switch {
				case res.Level == Inform:
					require.Equal(t, Info, res.Verdict, "%s\n%s", res.Slug, texts(report))
				case res.Verdict == Skip:
					require.Contains(t, skipped(all[i].profile, all[i].mode), res.Slug, "%s", res.Reason)
				default:
					require.Equal(t, Pass, res.Verdict, "%s\n%s", res.Slug, texts(report))
				}
			}
			require.Len(t, report.Results, len(Cases()))
			require.Zero(t, report.ExitCode(true))
		})
	}
}

// skipped are the cases that do not apply, and no others may be skipped: redo's own rules apply in every profile, since
// the server sends redo's headers.
func skipped(profile, mode string) []string {
	slugs := []string{"key-optional"}
	if profile == "stripe" {
		slugs = append(slugs, "mismatch-problem")
	}
	if mode == "wait" {
		slugs = append(slugs, "conc-retry-after")
	}
	return slugs
}

func TestReferenceWithAnOptionalKeyPasses(t *testing.T) {
	l := newLab(t)
	l.optional = true
	report, err := Run(t.Context(), l.start().target(), Only("ctl", "key"))
	require.NoError(t, err)
	require.Empty(t, broken(report))
	res, _ := report.Result("key-optional")
	require.Equal(t, Pass, res.Verdict)
	require.Zero(t, report.ExitCode(true))
}

// By URL a server is judged by the draft. A server of redo may respond to a mismatch with 409.
func TestReferenceWithItsOwnStatusesPassesAsTheDraftHasThem(t *testing.T) {
	target := newLab(t).start().target()
	target.Profile = "ietf"
	report, err := Run(t.Context(), target, Only("ctl", "mismatch", "key-both-forms"))
	require.NoError(t, err)
	require.Empty(t, broken(report), "%s", trouble(report))
	require.Zero(t, report.ExitCode(true))
	for _, slug := range []string{"mismatch-code", "mismatch-query", "key-both-forms"} {
		res, _ := report.Result(slug)
		require.Equal(t, Pass, res.Verdict, slug) // redo's own rules apply too
	}
}
