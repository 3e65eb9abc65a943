package conformance

import (
	"net/http"
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
