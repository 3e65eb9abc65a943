package otelredo_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/otelredo"
)

func TestDocsListTheMetrics(t *testing.T) {
	page, err := os.ReadFile("../docs/observability.md")
	require.NoError(t, err)
	var want strings.Builder
	for _, m := range otelredo.Metrics() {
		fmt.Fprintf(&want, "| `%s` | %s | %s |\n", m.Name, m.Unit, m.Description)
	}
	require.Contains(t, string(page), want.String(), "the table of docs/observability.md")
}
