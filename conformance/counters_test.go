package conformance

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// countedByRoute is a shop whose refunds and large orders have counters of their own. A PATCH is not counted.
func countedByRoute(t *testing.T, change func(*peer)) Target {
	b := benign{
		peer: func(p *peer) {
			p.perRoute = true
			p.account = func(r *http.Request, o order) string {
				switch {
				case r.Method == http.MethodPatch:
					return ""
				case r.URL.Path == "/refunds", r.URL.Path == "/large":
					return r.URL.Path + "/" + o.Account
				}
				return o.Account
			}
			change(p)
		},
		target: func(t *Target, _ *httptest.Server) {
			t.Second.Effects = &Effects{URL: "/effects?account=/refunds/{{case}}", Path: "count"}
			t.Large.Effects = &Effects{URL: "/effects?account=/large/{{case}}", Path: "count"}
		},
	}
	return b.start(t)
}

func TestOperationWithItsOwnCounterIsJudgedByIt(t *testing.T) {
	cases := []string{"mismatch-path", "mismatch-method", "replay-large"}
	for name, c := range map[string]struct {
		change func(*peer)
		broken []string
	}{
		"each operation once":    {func(*peer) {}, nil},
		"large orders run again": {func(p *peer) { p.forgets = "/large" }, []string{"replay-large"}},
		"refunds run twice under a used key": {func(p *peer) {
			respond := peerOrder
			p.respond = func(w http.ResponseWriter, r *http.Request, o order, id string) {
				if r.URL.Path == "/refunds" && p.used(r) {
					p.add("/refunds/" + o.Account)
				}
				respond(w, r, o, id)
			}
		}, []string{"mismatch-path"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report, err := Run(t.Context(), countedByRoute(t, c.change), Only(cases...))
			require.NoError(t, err)
			require.Equal(t, c.broken, broken(report), "%s", trouble(report))
			for _, slug := range cases {
				res, _ := report.Result(slug)
				require.Contains(t, []Verdict{Pass, Fail}, res.Verdict, "%s: %s", slug, res.Reason)
			}
		})
	}
}

// Without its own counter, the same wrong server can't be caught.
func TestOperationThatIsCountedNowhereIsNotJudged(t *testing.T) {
	target := countedByRoute(t, func(p *peer) { p.forgets = "/large" })
	target.Large.Effects = nil
	report, err := Run(t.Context(), target, Only("replay-large"))
	require.NoError(t, err)
	res, _ := report.Result("replay-large")
	require.Equal(t, Skip, res.Verdict, "%s", trouble(report))
}

func TestCountersThatDoNotGoTogetherAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Target)
		want   string
	}{
		"no main counter": {func(t *Target) { t.Effects = nil },
			"second_operation.effects: goes together with effects of the target"},
		"ids": {func(t *Target) { t.Second.Effects = &Effects{ResponseID: "id"} },
			"second_operation.effects: must have a url or a command"},
		"beside ids": {func(t *Target) { t.Effects = &Effects{ResponseID: "id"} },
			"second_operation.effects: goes together with a url or a command"},
		"shared": {func(t *Target) { t.Second.Effects.URL = "/effects" },
			"second_operation.effects: must have {{case}}, as effects of the target has"},
		"on a safe method": {func(t *Target) { t.Get = &Operation{Method: "GET", Path: "/x", Effects: t.Effects} },
			"get.effects: GET makes no effect"},
		"on the main one": {func(t *Target) { t.Operation.Effects = t.Second.Effects },
			"operation.effects: is a member of the target"},
		"on a setup step": {func(t *Target) {
			t.Setup = []Step{{Operation: t.Operation}}
			t.Setup[0].Effects = t.Effects
		},
			"setup.0.effects: the effects of a setup step are not counted"},
		"wrong": {func(t *Target) { t.Second.Effects.Path, t.Second.Effects.Settle = "a", -1 },
			"second_operation.effects.settle: -1ns is negative"},
	} {
		t.Run(name, func(t *testing.T) {
			target := countedByRoute(t, func(*peer) {})
			require.NoError(t, target.Validate())
			c.change(&target)
			require.ErrorContains(t, target.Validate(), c.want)
		})
	}
}

// Operations may share a counter. It is read once.
func TestEqualCountersAreOne(t *testing.T) {
	counter := func() *Effects { return &Effects{URL: "/n?of={{case}}"} }
	target := Target{Effects: counter(), Second: &Operation{Effects: counter()}, Empty: &Operation{},
		Large: &Operation{Effects: &Effects{URL: "/m?of={{case}}"}},
		Slow:  &Slow{Operation: Operation{Effects: counter()}}}
	require.Len(t, target.counters(), 2)
}
