package examples

import (
	"bytes"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/racetest"
	"github.com/redo-go/redo/store/pgstore/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// maxLines is the length of a file to copy.
const maxLines = 120

// copied matches a link of README.md to a file to copy.
var copied = regexp.MustCompile(`\]\(([^)]+\.go)\)`)

// filesToCopy returns the files that README.md names.
func filesToCopy(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	var files []string
	for _, m := range copied.FindAllStringSubmatch(string(text), -1) {
		files = append(files, m[1])
	}
	return files
}

func TestEachFileToCopyIsShort(t *testing.T) {
	files := filesToCopy(t)
	require.Greater(t, len(files), 20)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if n := bytes.Count(text, []byte("\n")); n > maxLines {
			t.Errorf("%s: %d lines, a file to copy has at most %d", file, n, maxLines)
		}
	}
}

func TestEachProgramIsListed(t *testing.T) {
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for _, dir := range programs(t) {
		require.Contains(t, string(text), dir, "README.md does not list it")
	}
}

// programs returns the directories of the programs here and over SDKs.
func programs(t *testing.T) []string {
	t.Helper()
	var dirs []string
	for _, pattern := range []string{"*/main.go", "../verify/sdks/*/main.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			dirs = append(dirs, filepath.ToSlash(filepath.Dir(file)))
		}
	}
	return slices.DeleteFunc(dirs, func(dir string) bool {
		return dir == "../verify/sdks/clients" // the clients of docs/clients.md
	})
}

// printed returns the command line of a package comment and the output below it.
func printed(source string) (command, output string, found bool) {
	for line := range strings.Lines(source) {
		text, indented := strings.CutPrefix(line, "//\t")
		switch {
		case !found && strings.HasPrefix(text, "$ "):
			command, found = strings.TrimSpace(text[2:]), indented
		case found && indented:
			output += text
		case found:
			return command, output, true
		}
	}
	return command, output, found
}

// Each program prints the output in its package comment.
func TestEachProgramPrintsWhatItsCommentPromises(t *testing.T) {
	racetest.Repeats(t) // the programs are built without the detector
	ran := 0
	for _, dir := range programs(t) {
		source, err := os.ReadFile(filepath.Join(dir, "main.go"))
		require.NoError(t, err)
		command, want, found := printed(string(source))
		if !found {
			continue // a story, with another test
		}
		ran++
		t.Run(dir, func(t *testing.T) {
			require.Equal(t, path.Clean("examples/"+dir), path.Clean(strings.TrimPrefix(command, "go run ")))
			cmd := exec.CommandContext(t.Context(), "go", strings.Fields(command)[1:]...)
			cmd.Dir = ".."
			if dir == "postgres" {
				cmd.Env = append(os.Environ(), "REDO_TEST_POSTGRES="+pgtest.URL(t))
			}
			var errs strings.Builder
			cmd.Stderr = &errs
			out, err := cmd.Output()
			require.NoError(t, err, errs.String())
			require.Equal(t, want, string(out))
		})
	}
	require.GreaterOrEqual(t, ran, 10)
}

func TestTheOutputOfACommentEndsWithItsBlock(t *testing.T) {
	command, output, found := printed("// Text.\n//\n//\t$ go run ./examples/a\n//\tone\n//\ttwo\n//\n// " +
		"More.\n//\n//\tno\n")
	require.True(t, found)
	require.Equal(t, "go run ./examples/a", command)
	require.Equal(t, "one\ntwo\n", output)
	_, _, found = printed("// Text.\n//\n//\tgo run ./examples/a\npackage main\n")
	require.False(t, found)
}
