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

// Each snippet of the README stands, line by line, in a file that is compiled and run by this package's tests.
func TestEverySnippetIsCompiledAndRun(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	var source []byte
	for _, name := range []string{"snippets_test.go", "client_test.go", "transaction_test.go", "webhook_test.go", "conformance_test.go"} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		source = append(source, text...)
	}
	snippets := block.FindAllStringSubmatch(string(readme), -1)
	require.NotEmpty(t, snippets)
	code := unindented(string(source))
	for _, s := range snippets {
		require.Contains(t, code, unindented(s[1]), "the README prints what snippets_test.go does not run")
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
