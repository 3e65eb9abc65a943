package nearest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheNearestNameIsSuggested(t *testing.T) {
	names := []string{"effects", "expiring", "key", "replay-body"}
	for typed, want := range map[string]string{
		"efects": " (did you mean effects?)", "exipring": " (did you mean expiring?)", "reply-bdoy": " (did you mean " +
			"replay-body?)",
		"kye": " (did you mean key?)", "colour": "", "": "",
	} {
		require.Equal(t, want, DidYouMean(typed, names), typed)
	}
}
