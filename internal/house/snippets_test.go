package house

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	snippet = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")
	elision = regexp.MustCompile(`(?m)^\s*…\n`)
)

// checkSnippets requires that each fragment of Go in README.md and docs is in one file, line by line and in order.
// The file is a test or part of examples or verify, so it is compiled and run. Indentation does not count, and a
// line "…" means any other lines. Whole programs are not checked here: .ci/release builds them as a user does.
func checkSnippets(t *tree) []string {
	var sources []string
	for _, f := range t.files {
		if f.test || within(f.dir, "examples") || within(f.dir, "verify") {
			if content, err := fs.ReadFile(t.fsys, f.path); err == nil {
				sources = append(sources, unindented(string(content)))
			}
		}
	}
	var found []string
	for _, p := range t.paths {
		if path.Ext(p) != ".md" || p != "README.md" && !within(p, "docs") {
			continue
		}
		page, err := fs.ReadFile(t.fsys, p)
		if err != nil {
			found = append(found, err.Error())
		}
		for _, at := range snippet.FindAllSubmatchIndex(page, -1) {
			text := string(page[at[2]:at[3]])
			if !strings.HasPrefix(text, "package main\n") && !printed(text, sources) {
				line := 1 + strings.Count(string(page[:at[0]]), "\n")
				found = append(found, fmt.Sprintf("%s:%d: no test has this snippet", p, line))
			}
		}
	}
	return found
}

// printed reports whether one of the sources has all parts of a snippet, in order.
func printed(snippet string, sources []string) bool {
	parts := elision.Split(snippet, -1)
	for _, source := range sources {
		rest, found := "\n"+source, true
		for _, part := range parts {
			if found {
				_, rest, found = strings.Cut(rest, "\n"+unindented(part))
				rest = "\n" + rest
			}
		}
		if found {
			return true
		}
	}
	return false
}

func unindented(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	return b.String()
}

func TestSnippets(t *testing.T) { holds(t, checkSnippets) }

func TestSnippetsCanFail(t *testing.T) {
	const source = "package a\n\nfunc f() {\n\tone()\n\ttwo()\n\tthree()\n}\n"
	block := func(code string) string { return "text\n\n```go\n" + code + "```\n" }
	finds(t, checkSnippets, []breach{
		{
			rule: "a snippet of a test or an example, without its indentation and in parts, is no violation",
			files: map[string]string{
				"a_test.go":          source,
				"examples/b/main.go": "package main\n\nfunc main() {\n\tb()\n}\n",
				"README.md": block("one()\n\ttwo()\n") + block("one()\n…\n  three()\n") +
					"```sh\nnothing\n```\n",
				"docs/b.md":    block("b()\n") + block("package main\n\nfunc whole() {}\n"),
				"CHANGELOG.md": block("gone()\n"),
			},
		},
		{
			rule: "a snippet of no test, half a line, another order and two files are found",
			files: map[string]string{
				"a_test.go": source,
				"b_test.go": "package b\n\nfunc g() {\n\tfour()\n}\n",
				"a.go":      "package a\n\nfunc h() {\n\tfive()\n}\n",
				"docs/a.md": block("five()\n") + block("wo()\n") + block("two()\n…\none()\n") +
					block("one()\n…\nfour()\n"),
			},
			want: []string{
				"docs/a.md:3: no test has this snippet",
				"docs/a.md:8: no test has this snippet",
				"docs/a.md:13: no test has this snippet",
				"docs/a.md:20: no test has this snippet",
			},
		},
	})
}
