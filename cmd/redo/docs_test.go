package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	shellBlock  = regexp.MustCompile("(?ms)^```(?:sh|yaml)\n(.*?)^```$")
	commandLine = regexp.MustCompile(`(?m)^(?:- run: )?(?:redo|\$RUNNER_TEMP/redo|go run \./cmd/redo) (.*)$`)
	shellPart   = regexp.MustCompile(` (?:#|> |&$).*`)
	commandSpan = regexp.MustCompile("`(?:redo|go run ./cmd/redo) ([a-z][^`]*)`")
)

// wrongCommands returns an error for each command of a page that the program would refuse. It tries the command, its
// flags and, for a line of a block, the number of arguments. A command in a sentence may lack its arguments.
func wrongCommands(t *testing.T, page string) (wrong []error, seen int) {
	t.Helper()
	try := func(line string, whole bool) {
		seen++
		cmd, args, err := newRoot(terminal{}).Find(shellWords(t, line))
		if err == nil && cmd.HasSubCommands() && len(args) > 0 {
			err = fmt.Errorf("%q is no command", args[0])
		}
		if err == nil {
			err = cmd.ParseFlags(args)
		}
		if err == nil && whole {
			err = cmd.ValidateArgs(cmd.Flags().Args())
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("redo %s: %w", line, err))
		}
	}
	for _, block := range shellBlock.FindAllString(page, -1) {
		for _, m := range commandLine.FindAllStringSubmatch(block, -1) {
			try(shellPart.ReplaceAllString(m[1], ""), true)
		}
	}
	for _, m := range commandSpan.FindAllStringSubmatch(page, -1) {
		try(m[1], false)
	}
	return wrong, seen
}

func TestCommandsOfTheDocsExist(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	total := 0
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		if filepath.Base(page) == "observability.md" {
			text = regexp.MustCompile("(?m)^\\| `redo .*$").ReplaceAll(text, nil) // names of spans
		}
		wrong, seen := wrongCommands(t, string(text))
		require.Empty(t, wrong, page)
		total += seen
	}
	require.Greater(t, total, 50)
}

func TestWrongCommandsOfAPageAreFound(t *testing.T) {
	right := "redo makes calls\n`redo ops list payments.redo` `redo ops show`\n" +
		"```sh\nredo ops verify payments.redo   # checks\nredo events list q.redo --state dead > dead.txt\n```\n"
	wrong, seen := wrongCommands(t, right)
	require.Empty(t, wrong)
	require.Equal(t, 4, seen)
	wrong, seen = wrongCommands(t, "`redo opps`\n`redo ops lst`\n`redo events list --stat dead`\n"+
		"```sh\nredo ops verify > a.txt\ngo run ./cmd/redo chek\n```\n")
	require.Len(t, wrong, 5)
	require.Equal(t, 5, seen)
}
