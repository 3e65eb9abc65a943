package clientcheck_test

import (
	"context"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/cmd/redo/internal/clientcheck"
	"github.com/redo-go/redo/conformance"
	"github.com/redo-go/redo/internal/racetest"
)

// check runs the cases against a test client.
func check(t *testing.T, c client, only ...string) conformance.Report {
	t.Helper()
	report, err := clientcheck.Run(t.Context(), clientcheck.Options{
		Command: c.command(t), KeyHeader: c.Header, ClientTimeout: 3 * time.Second, Workers: 16, Only: only,
	})
	require.NoError(t, err)
	return report
}

// broken returns the slugs of the rules that were seen to be broken, and the evidence.
func broken(r conformance.Report) (slugs []string, evidence string) {
	for _, res := range r.Results {
		if res.Verdict == conformance.Fail || res.Verdict == conformance.Warn || res.Verdict == conformance.Harness {
			slugs = append(slugs, res.Slug)
			evidence += res.String() + "\n"
		}
	}
	return slugs, evidence
}

// Clients that differ and keep the rules break none.
func TestBenignClients(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*client){
		"a client that keeps all rules":     func(*client) {},
		"no retries":                        func(c *client) { c.Retries = 0 },
		"one late retry":                    func(c *client) { c.Retries, c.Backoff = 1, 700*time.Millisecond },
		"quoted keys":                       func(c *client) { c.Quoted = true },
		"another header":                    func(c *client) { c.Header = "PayPal-Request-Id" },
		"a random key that is kept in file": func(c *client) { c.Key = "file" },
		"no redirects followed":             func(c *client) { c.Follows = false },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := right()
			change(&c)
			report := check(t, c)
			slugs, evidence := broken(report)
			require.Empty(t, slugs, evidence)
			require.Equal(t, conformance.ExitConforms, report.ExitCode(true))
			require.Len(t, report.Results, len(clientcheck.Cases()))
		})
	}
}

// The port that refuses connections is none that a system gives to listeners on port 0. Such a port could become that
// of another case's server meanwhile.
func TestRefusingPortIsNoOtherServers(t *testing.T) {
	t.Parallel()
	c := right()
	c.Flaw = "claims-success" // a pass shows no evidence
	report, err := clientcheck.Run(t.Context(), clientcheck.Options{
		Command: append([]string{"sh", "-c", `echo "$REDO_URL"; exec "$@"`, "sh"}, c.command(t)...),
		Only:    []string{"client-refused"},
	})
	require.NoError(t, err)
	runs := report.Results[len(report.Results)-1].Exchanges
	at, err := url.Parse(runs[len(runs)-1].RequestBody)
	require.NoError(t, err)
	port, err := strconv.Atoi(at.Port())
	require.NoError(t, err)
	require.Less(t, port, 32768, "the first port that Linux gives out; other systems give out higher ones")
}

// A client that retries has no skipped case, so that each rule was tried.
func TestRightClientIsTriedInEachCase(t *testing.T) {
	t.Parallel()
	for _, res := range check(t, right()).Results {
		if slices.Contains([]string{"client-refused", "client-html-success"}, res.Slug) {
			continue // its port opens in real time
		}
		require.NotEqual(t, conformance.Skip, res.Verdict, "%s: %s", res.Slug, res.Reason)
	}
}

// flaws has, for each case, the flaw of a client that breaks it.
var flaws = map[string]string{
	"client-key":               "no-key",
	"client-key-form":          "two-lines",
	"client-key-unique":        "constant-key",
	"client-lost-response":     "new-key",
	"client-closed-connection": "new-key",
	"client-reused-connection": "new-key",
	"client-reset-early":       "new-key",
	"client-refused":           "claims-success",
	"client-truncated":         "status-only",
	"client-html-error":        "claims-success",
	"client-html-success":      "status-only",
	"client-503":               "new-key",
	"client-500-after-effect":  "new-key",
	"client-504-after-effect":  "new-key",
	"client-425":               "new-key",
	"client-429":               "new-key",
	"client-in-flight":         "new-key",
	"client-payload":           "new-payload",
	"client-attempts":          "endless",
	"client-killed":            "key-in-memory",
	"client-slow":              "new-key",
	"client-timeout":           "new-key",
	"client-retry-after-429":   "ignores-hint",
	"client-retry-after-503":   "ignores-hint",
	"client-retry-after-date":  "ignores-hint",
	"client-retry-after-long":  "ignores-hint",
	"client-redirect-origin":   "follows-anywhere",
	"client-redirect-same":     "drops-key-on-redirect",
	"client-redirect-get":      "follows-get",
	"client-400":               "retries-all",
	"client-mismatch":          "retries-all",
	"client-401":               "retries-all",
	"client-501":               "retries-all",
}

// Each case but the baseline fails for a client that breaks its rule in that case only, and no other case does.
func TestEachCaseIsBrokenByItsFlaw(t *testing.T) {
	t.Parallel()
	for _, c := range clientcheck.Cases()[1:] {
		require.Contains(t, flaws, c.Slug)
	}
	require.Len(t, slices.Collect(maps.Keys(flaws)), len(clientcheck.Cases())-1)
	for slug, flaw := range flaws {
		t.Run(slug, func(t *testing.T) {
			t.Parallel()
			c := right()
			c.Flaw, c.In = flaw, slug
			if slug == "client-slow" {
				c.Timeout = 300 * time.Millisecond
			}
			report := check(t, c, slug)
			slugs, evidence := broken(report)
			require.Equal(t, []string{slug}, slugs, evidence)
			require.Equal(t, conformance.ExitFailed, report.ExitCode(true))
		})
	}
}

// A flaw that shows everywhere breaks each rule that it touches, and no other.
func TestWrongClients(t *testing.T) {
	t.Parallel()
	racetest.Repeats(t)
	for flaw, want := range map[string][]string{
		"claims-success": {
			"client-lost-response", "client-closed-connection", "client-reused-connection", "client-reset-early",
			"client-refused", "client-truncated", "client-html-error", "client-html-success", "client-503",
			"client-500-after-effect", "client-504-after-effect", "client-425", "client-429", "client-in-flight",
			"client-payload", "client-attempts", "client-timeout", "client-retry-after-429", "client-retry-after-503",
			"client-retry-after-date", "client-retry-after-long", "client-redirect-origin", "client-redirect-get",
			"client-400", "client-mismatch", "client-401", "client-501",
		},
		"ignores-hint": {
			"client-retry-after-429", "client-retry-after-503", "client-retry-after-date", "client-retry-after-long",
		},
		"constant-key":         {"client-key-unique"},
		"done-before-response": {"client-killed"},
		"key-in-memory":        {"client-killed"},
		"retries-all":          {"client-400", "client-mismatch", "client-401", "client-501"},
	} {
		t.Run(flaw, func(t *testing.T) {
			t.Parallel()
			c := right()
			c.Flaw = flaw
			slugs, evidence := broken(check(t, c))
			require.Equal(t, want, slugs, evidence)
		})
	}
}

// More than one effect is a MUST failure also in a case that judges waits.
func TestSecondEffectFailsAnyCase(t *testing.T) {
	t.Parallel()
	c := right()
	c.Flaw = "no-key"
	report := check(t, c, "client-lost-response")
	res, ok := report.Result("client-lost-response")
	require.True(t, ok)
	require.Equal(t, conformance.Fail, res.Verdict)
	require.Equal(t, 2, *res.Effects)
	require.NotEmpty(t, res.Exchanges)
}

// A breach that does not show when the case runs alone is reported, but is no failure.
func TestFailureIsRepeatedAlone(t *testing.T) {
	t.Parallel()
	c := right()
	c.Flaw, c.In, c.Once = "new-key", "client-503", filepath.Join(t.TempDir(), "once")
	report := check(t, c, c.In)
	res, ok := report.Result(c.In)
	require.True(t, ok)
	require.Equal(t, conformance.Info, res.Verdict)
	require.Contains(t, res.Findings[0].Actual, "only beside other cases")
	require.NotEmpty(t, res.Exchanges)
	require.Equal(t, conformance.ExitConforms, report.ExitCode(true))
}

// A command that does not keep the contract is not judged.
func TestUnfitCommands(t *testing.T) {
	t.Parallel()
	for name, argv := range map[string][]string{
		"it makes no request":       {"true"},
		"it can't be started":       {"/does/not/exist"},
		"it fails after a success ": {"false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report, err := clientcheck.Run(t.Context(), clientcheck.Options{Command: argv})
			require.Error(t, err)
			require.Equal(t, conformance.ExitUnreachable, report.ExitCode(false))
			require.Len(t, report.Results, len(clientcheck.Cases()))
			require.Equal(t, conformance.Blocked, report.Results[1].Verdict)
		})
	}
}

func TestWrongOptions(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]clientcheck.Options{
		"no command":       {},
		"a negative limit": {Command: []string{"true"}, Limit: -1},
		"an unknown case":  {Command: []string{"true"}, Only: []string{"client-nothing"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report, err := clientcheck.Run(t.Context(), o)
			require.Error(t, err)
			require.Equal(t, conformance.ExitConfig, report.ExitCode(false))
		})
	}
}

// A run that is ended early reports that, and judges nothing.
func TestCanceledRun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	report, err := clientcheck.Run(ctx, clientcheck.Options{Command: right().command(t)})
	require.Error(t, err)
	require.Equal(t, conformance.ExitFault, report.ExitCode(false))
}
