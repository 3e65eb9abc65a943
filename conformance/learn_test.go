package conformance

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// Another server may have a header of the same name. The rules of redo apply to redo's values only.
func TestTheRulesOfRedoApplyToItsOwnServers(t *testing.T) {
	for status, ours := range map[string]bool{
		"stored": true, "replayed": true, "": false, "HIT": false, "MISS": false, "Stored": false, "new": false,
	} {
		require.Equal(t, ours, isOurs(http.Header{"Idempotency-Status": {status}}), status)
	}
	require.False(t, isOurs(nil))
}

// replay-status judges the status of replays. Another network does not change this status.
func TestServerWhoseReplaysAreRefusedFailsTheirStatusAlone(t *testing.T) {
	l := newLab(t)
	onReplay(func(_ *http.Request, a *httptest.ResponseRecorder) { a.Code = http.StatusUnprocessableEntity })(l)
	report, err := Run(t.Context(), l.start().target(), Only(slugStatus, "replay-other-headers"))
	require.NoError(t, err)
	require.Equal(t, []string{slugStatus}, broken(report), "%s", texts(report))
}
