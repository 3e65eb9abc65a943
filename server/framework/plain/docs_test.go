package plain

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var snippet = regexp.MustCompile("(?s)```go\n(.*?)```")

// missing returns the first line of each snippet that no source has, line for line.
func missing(page string, sources []string) (lines []string, snippets int) {
	for _, s := range snippet.FindAllStringSubmatch(page, -1) {
		snippets++
		found := false
		for _, source := range sources {
			found = found || strings.Contains(source, s[1])
		}
		if !found {
			lines = append(lines, strings.SplitN(s[1], "\n", 2)[0])
		}
	}
	return lines, snippets
}

func TestTheSnippetsOfTheDocsAreTheExamples(t *testing.T) {
	page, err := os.ReadFile("../../../docs/frameworks.md")
	require.NoError(t, err)
	files, err := filepath.Glob("../*/*_test.go")
	require.NoError(t, err)
	var sources []string
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		sources = append(sources, string(source))
	}
	lines, snippets := missing(string(page), sources)
	require.Empty(t, lines)
	require.GreaterOrEqual(t, snippets, 8)
	lines, _ = missing("```go\n\tnobody.Wrote(this)\n```", sources[:1])
	require.Equal(t, []string{"\tnobody.Wrote(this)"}, lines)
}
