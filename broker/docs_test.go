package broker_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var snippet = regexp.MustCompile("(?s)```go\n(.*?)```")

// missing returns the snippets of a page that no source has, apart from indentation.
func missing(page string, sources []string) (absent []string, snippets int) {
	for _, s := range snippet.FindAllStringSubmatch(page, -1) {
		snippets++
		found := false
		for _, source := range sources {
			found = found || strings.Contains(unindented(source), unindented(s[1]))
		}
		if !found {
			absent = append(absent, s[1])
		}
	}
	return absent, snippets
}

func unindented(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString(strings.TrimLeft(line, "\t"))
	}
	return b.String()
}

func TestTheSnippetsOfTheDocsAreInTheExamples(t *testing.T) {
	page, err := os.ReadFile("../docs/brokers.md")
	require.NoError(t, err)
	files, err := filepath.Glob("*/example_test.go")
	require.NoError(t, err)
	var sources []string
	for _, file := range append(files, "example_test.go") {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		sources = append(sources, string(source))
	}
	absent, snippets := missing(string(page), sources)
	require.Empty(t, absent)
	require.Equal(t, 11, snippets)
	absent, _ = missing("```go\nnobody.Wrote(this)\n```", sources)
	require.Equal(t, []string{"nobody.Wrote(this)\n"}, absent)
}
