package conformance

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rowsOf returns the cells of the table whose header begins with the given cells.
func rowsOf(t *testing.T, page string, header ...string) [][]string {
	t.Helper()
	_, rest, found := strings.Cut(page, "| "+strings.Join(header, " | ")+" |")
	require.True(t, found, "no table begins with %q", header)
	var rows [][]string
	for _, line := range strings.Split(rest, "\n")[2:] { // after the header and the line below it
		if !strings.HasPrefix(line, "|") {
			return rows
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows
}

// A setup is a line of targets/setups.
type setup struct{ name, program string }

func readSetups(t *testing.T) []setup {
	t.Helper()
	file, err := os.ReadFile("targets/setups")
	require.NoError(t, err)
	var setups []setup
	for line := range strings.Lines(string(file)) {
		words := strings.Fields(line)
		if strings.HasPrefix(line, "#") || len(words) == 0 {
			continue
		}
		setups = append(setups, setup{words[0], append(words, words[0])[min(1, len(words))]})
	}
	return setups
}

// pinned returns the versions that the lock file of a set-up's program pins. A list of pip or gem packages is for
// several set-ups, and is not in their rows.
func pinned(t *testing.T, program string) []string {
	t.Helper()
	file, err := os.ReadFile(filepath.Join("targets", program, "package.json"))
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(t, err)
	var manifest struct{ Dependencies map[string]string }
	require.NoError(t, json.Unmarshal(file, &manifest))
	var versions []string
	for _, name := range slices.Sorted(maps.Keys(manifest.Dependencies)) {
		versions = append(versions, name+" "+manifest.Dependencies[name])
	}
	return versions
}

var targetName = regexp.MustCompile(`(?m)^name: "(.*)"$`)

func TestMatrixHasTheSetupsVersionsAndCasesOfThisVersion(t *testing.T) {
	file, err := os.ReadFile("../docs/conformance.md")
	require.NoError(t, err)
	page := string(file)

	servers := rowsOf(t, page, "Setup", "Server")
	setups := readSetups(t)
	require.Len(t, servers, len(setups), "run conformance/targets/run and matrix.mjs")
	for i, s := range setups {
		name := "redo serve"
		if s.program != "redo" {
			description, err := os.ReadFile(filepath.Join("targets", s.name, "target.yaml"))
			require.NoError(t, err)
			name = targetName.FindStringSubmatch(string(description))[1]
		}
		require.Equal(t, name, servers[i][1], "row %d: run conformance/targets/run and matrix.mjs", i+1)
		for _, version := range pinned(t, s.program) {
			require.Contains(t, strings.Split(servers[i][3], ", "), version, s.name)
		}
	}

	var want, got []string
	for _, c := range Cases() {
		want = append(want, c.Slug)
	}
	for _, row := range rowsOf(t, page, "Case", "Here") {
		got = append(got, row[0])
		require.Len(t, row, 3+len(setups), row[0])
	}
	require.Equal(t, want, got, "run conformance/targets/run and matrix.mjs")
}
