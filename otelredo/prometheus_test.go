package otelredo_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/otelredo"
)

// prometheusNames returns the series of each metric, as OpenTelemetry's exporter for Prometheus names them.
func prometheusNames() map[string]otelredo.Metric {
	series := map[string]otelredo.Metric{}
	for _, m := range otelredo.Metrics() {
		name := strings.ReplaceAll(m.Name, ".", "_")
		switch {
		case m.Kind == otelredo.Counter:
			series[name+"_total"] = m
		case m.Kind == otelredo.Histogram:
			if m.Unit == "s" {
				name += "_seconds"
			}
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				series[name+suffix] = m
			}
		case m.Unit == "s":
			series[name+"_seconds"] = m
		default:
			series[name] = m
		}
	}
	return series
}

var promName = regexp.MustCompile(`\bidempotent_[a-z_]+`)

// used returns the series that a file names.
func used(t *testing.T, file string) []string {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	names := promName.FindAllString(string(b), -1)
	slices.Sort(names)
	return slices.Compact(names)
}

func TestDeployedQueriesNameSeriesThatAreEmitted(t *testing.T) {
	series := prometheusNames()
	for _, file := range []string{"../deploy/alerts.yaml", "../deploy/dashboard.json"} {
		names := used(t, file)
		require.NotEmpty(t, names)
		for _, name := range names {
			require.Contains(t, series, name, "%s names a series that is never emitted", file)
		}
	}
}

// A series begins with the counter's first event, which increase and rate don't see. A rule without a duration, which a
// single event fires, needs the series that are new.
func TestAlertsSeeTheFirstEventOfACounter(t *testing.T) {
	b, err := os.ReadFile("../deploy/alerts.yaml")
	require.NoError(t, err)
	counter := regexp.MustCompile(`(?:increase|rate)\((idempotent_[a-z_]+_total)`)
	rare := 0
	for rule := range strings.SplitSeq(string(b), "- alert: ") {
		found := counter.FindStringSubmatch(rule)
		if found == nil || strings.Contains(rule, "for: ") {
			continue
		}
		rare++
		require.Regexp(t, found[1]+`(\{[^}]*\})?\s+unless `+found[1]+`(\{[^}]*\})? offset 15m`, rule)
	}
	require.Equal(t, 3, rare)
}

func TestDashboardShowsEveryMetric(t *testing.T) {
	b, err := os.ReadFile("../deploy/dashboard.json")
	require.NoError(t, err)
	require.True(t, json.Valid(b))
	series, shown := prometheusNames(), map[string]bool{}
	for _, name := range used(t, "../deploy/dashboard.json") {
		shown[series[name].Name] = true
	}
	for _, m := range otelredo.Metrics() {
		require.True(t, shown[m.Name], "no panel shows %s", m.Name)
	}
}
