package readme

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// block is a fenced block of Go.
var block = regexp.MustCompile("(?s)```go\n(.*?)```")

// Each Go snippet of these pages is part of a file that this package's tests compile and run.
func TestEverySnippetIsCompiledAndRun(t *testing.T) {
	var readme []byte
	for _, page := range []string{
		"README.md", "docs/client.md", "docs/server.md", "docs/testing.md", "docs/tutorial.md", "docs/names.md",
		"docs/timeouts.md", "docs/from-retryablehttp.md", "docs/kubernetes.md",
	} {
		text, err := os.ReadFile("../../" + page)
		require.NoError(t, err)
		readme = append(readme, text...)
	}
	var source []byte
	for _, name := range []string{
		"snippets_test.go", "client_test.go", "transaction_test.go", "webhook_test.go", "conformance_test.go", "howto_test.go",
		"../kubernetes/main.go",
	} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		source = append(source, text...)
	}
	snippets := block.FindAllStringSubmatch(string(readme), -1)
	require.NotEmpty(t, snippets)
	code := unindented(string(source))
	for _, s := range snippets {
		require.Contains(t, code, unindented(s[1]), "the page prints what no test runs")
	}
}

// unindented drops what indents a line, so that a snippet matches inside a function.
func unindented(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimSpace(l)
	}
	return strings.Join(lines, "\n") + "\n"
}
