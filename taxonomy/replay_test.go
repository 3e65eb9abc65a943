package taxonomy

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReplayed(t *testing.T) {
	all := []string{
		"Idempotent-Replayed", "Idempotency-Replayed", "X-Idempotent-Replayed", "Idempotency-Replay",
		"Idempotency-Hit", "X-Idempotency-Status", "X-Idempotency-Cached", "X-Cache-Idempotency",
	}
	for _, name := range all {
		for _, value := range []string{"true", "1", "yes", "replayed", "hit", "cached", "TRUE", " Hit "} {
			require.True(t, Replayed(http.Header{name: {value}}), "%s: %q", name, value)
		}
		for _, value := range []string{"", "false", "0", "no", "miss", "stored", "new", "truth", "true, true"} {
			require.False(t, Replayed(http.Header{name: {value}}), "%s: %q", name, value)
		}
	}
	require.True(t, Replayed(http.Header{"Idempotency-Status": {"Replayed"}}))
	for _, value := range []string{"stored", "true", "hit", "new", ""} {
		require.False(t, Replayed(http.Header{"Idempotency-Status": {value}}), value)
	}
	require.True(t, Replayed(http.Header{"Idempotent-Replayed": {"false", "true"}}), "any line of a header counts")
	require.False(t, Replayed(http.Header{"Age": {"1"}, "X-Cache": {"hit"}}), "an HTTP cache's hit is no replay")
	require.False(t, Replayed(nil))
}

func TestReplayedBy(t *testing.T) {
	h := http.Header{"Acme-Replay": {"no", " TRUE "}}
	require.False(t, ReplayedBy(h, nil))
	require.False(t, ReplayedBy(h, []string{"Other"}))
	require.True(t, ReplayedBy(h, []string{"Other", "Acme-Replay"}))
	require.True(t, ReplayedBy(h, []string{"acme-replay"}), "names need not be in canonical form")
	require.True(t, ReplayedBy(http.Header{"Idempotency-Hit": {"true"}}, []string{"Other"}),
		"the known markers still count")
	require.False(t, ReplayedBy(http.Header{"Acme-Replay": {"1700000000"}}, []string{"Acme-Replay"}),
		"any other value marks nothing")
	require.False(t, ReplayedBy(nil, []string{"Acme-Replay"}))
}

func TestAProvidersMarkerMakesAResponseFinal(t *testing.T) {
	a := Answer{Status: 500, Header: http.Header{"Acme-Replay": {"true"}}}
	require.Equal(t, Verdict{Code: Internal, Class: ClassTransient}, Classify(a))
	a.Markers = []string{"Acme-Replay"}
	require.Equal(t, Verdict{Code: Internal, Final: true}, Classify(a))
}

func TestMarkersAreCanonical(t *testing.T) {
	// Replayed indexes the header, so another spelling would never match.
	for _, name := range append(replayMarkers[:], headerStatus) {
		require.Equal(t, http.CanonicalHeaderKey(name), name)
	}
}
