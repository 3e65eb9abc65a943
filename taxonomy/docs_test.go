package taxonomy_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/taxonomy"
)

// The type of a problem document leads to a section of docs/codes.md.
func TestEveryCodeHasASectionInTheDocs(t *testing.T) {
	page, err := os.ReadFile("../docs/codes.md")
	require.NoError(t, err)
	sections := map[string]string{}
	for _, s := range strings.Split(string(page), "\n## ")[1:] {
		title, text, _ := strings.Cut(s, "\n")
		sections[title] = text
	}
	delete(sections, "Codes of single packages")
	for _, c := range taxonomy.Codes() {
		text, ok := sections[string(c)]
		require.True(t, ok, "docs/codes.md has no section for %s", c)
		retried := "- Retried: no."
		if c.Transient() {
			retried = "- Retried: yes."
		}
		require.Contains(t, text, retried, string(c))
		require.Contains(t, text, "- Effect: ", string(c))
		require.Contains(t, text, "- On call: ", string(c))
		delete(sections, string(c))
	}
	require.Empty(t, sections, "sections of codes that do not exist")
}
