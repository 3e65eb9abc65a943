package house

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	inlineLink    = regexp.MustCompile(`\]\(([^)\s]+)[^)]*\)`)
	referenceLink = regexp.MustCompile(`^\[[^\]]+\]:\s+(\S+)`)
	codeSpan      = regexp.MustCompile("`([^`]+)`")
	hasScheme     = regexp.MustCompile(`^[a-z][a-z0-9+.-]*:`)

	// namedFile matches a name that can only mean a file or a directory of this repository.
	namedFile = regexp.MustCompile(`^(?:\./[\w./-]*|(?:[\w.*-]+/)*(?:[\w.*-]+\.(?:go|json|md|mod|sh|sum|txt|work|ya?ml)|LICENSE|Makefile|\.gitignore|\.editorconfig)|\.ci/run|(?:[\w.-]+/)+)$`)

	// writtenFile matches a file of the reader's own, whose text follows.
	writtenFile = regexp.MustCompile("Write `([^`]+)`:")

	// commandPath matches a path from the root in a fenced command, and no file that the command would make.
	commandPath = regexp.MustCompile(`(?:^|\s)(\./(?:[\w.-]+/)*(?:[\w-]+(?:\.go|\.sh)?|\.\.\.)?)(?:\s|$)`)
)

// checkLinks wants everything that a Markdown file points to, or names as a file, to exist.
func checkLinks(t *tree) []string {
	var found []string
	for _, p := range t.paths {
		if path.Ext(p) != ".md" {
			continue
		}
		content, err := fs.ReadFile(t.fsys, p)
		if err != nil {
			found = append(found, p+": "+err.Error())
			continue
		}
		written := writtenFile.FindAllStringSubmatch(string(content), -1)
		number, fenced := 0, false
		for line := range strings.Lines(string(content)) {
			number++
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				fenced = !fenced
				continue
			}
			for _, missing := range t.missing(p, line, fenced) {
				if slices.ContainsFunc(written, func(w []string) bool { return isWritten(w[1], missing) }) {
					continue
				}
				found = append(found, fmt.Sprintf("%s:%d: %s does not exist", p, number, missing))
			}
		}
	}
	return found
}

// isWritten reports whether name is a file that the reader of a page writes, or the directory of that file.
func isWritten(file, name string) bool {
	name = path.Clean(name)
	return name == file || name == path.Dir(file)
}

// missing returns the names in a line of the Markdown file p that do not exist.
func (t *tree) missing(p, line string, fenced bool) []string {
	var missing []string
	if fenced {
		for _, m := range commandPath.FindAllStringSubmatch(line, -1) {
			if !t.exists(".", m[1]) {
				missing = append(missing, m[1])
			}
		}
		return missing
	}
	// CHANGELOG.md is history: a file that it names may be gone since. Its links must still lead somewhere.
	if path.Base(p) != "CHANGELOG.md" {
		for _, span := range codeSpan.FindAllStringSubmatch(line, -1) {
			for word := range strings.FieldsSeq(span[1]) {
				word = strings.TrimRight(word, ",;:")
				if namedFile.MatchString(word) && !strings.HasPrefix(word, "..") && !t.named(word) {
					missing = append(missing, word)
				}
			}
		}
	}
	prose := codeSpan.ReplaceAllString(line, "code")
	links := inlineLink.FindAllStringSubmatch(prose, -1)
	for _, m := range append(links, referenceLink.FindAllStringSubmatch(prose, -1)...) {
		target, _, _ := strings.Cut(m[1], "#")
		if target != "" && !hasScheme.MatchString(target) && !t.exists(path.Dir(p), target) {
			missing = append(missing, target)
		}
	}
	return missing
}

// exists reports whether a relative path, from dir, leads to a file or directory of the repository.
func (t *tree) exists(dir, target string) bool {
	target = path.Join(dir, strings.TrimSuffix(target, "..."))
	return target == "." || slices.Contains(t.paths, target)
}

// named reports whether the repository has the file or directory that prose calls name. A name that starts with
// "./" is a path from the root. Any other name is the end of some path, since prose may mention "doc.go" or
// "testdata/" of any package.
func (t *tree) named(name string) bool {
	if strings.HasPrefix(name, "./") {
		return t.exists(".", name)
	}
	name = strings.Trim(name, "/")
	return slices.ContainsFunc(t.paths, func(p string) bool {
		elems := strings.Split(p, "/")
		keep := min(len(elems), strings.Count(name, "/")+1)
		ok, err := path.Match(name, strings.Join(elems[len(elems)-keep:], "/"))
		return err == nil && ok
	})
}

func TestLinks(t *testing.T) { holds(t, checkLinks) }

func TestLinksCanFail(t *testing.T) {
	finds(t, checkLinks, []breach{
		{
			rule: "a name that exists, lies elsewhere or is no path is no violation",
			files: map[string]string{
				"doc.go":              "package redo",
				"LICENSE":             "",
				".ci/run":             "",
				"taxonomy/codes.json": "",
				"docs/one.md": "[up](../README.md) [beside](two.md#part) " +
					"[site](https://example.com/x.md)\n\n[ref]: ../LICENSE\n",
				"docs/two.md": "[here](#part) `[x](gone.md)`",
				"README.md": "`doc.go`, `.ci/run`, `taxonomy/`, `codes.json`, `*.json`, `go test ./...`, " +
					"`encoding/json`, `net/http`, `payments.redo`, `m => ../`\n" +
					"```sh\ngo test ./taxonomy/...\nredo -store ./payments.redo\n[x](gone.md)\n```\n",
				"CHANGELOG.md": "`gone.go`",
				"tutorial.md":  "Write `mine/main.go`:\n```sh\ngo run ./mine\n```\n",
			},
		},
		{
			rule: "each link, file and command path that leads nowhere is found",
			files: map[string]string{
				"docs/one.md": "[up](../gone.md)\n[ref]: gone.png\n",
				"README.md": "`gone.go` and `store/gone/` and `./gone`\n```sh\ngo run " +
					"./examples/gone\n```\n`go run ./gone.go`",
				"CHANGELOG.md": "[old](gone.md)",
				"tutorial.md":  "Write `mine/main.go`:\n```sh\ngo run ./yours\n```\n",
			},
			want: []string{
				"CHANGELOG.md:1: gone.md does not exist",
				"README.md:1: gone.go does not exist",
				"README.md:1: store/gone/ does not exist",
				"README.md:1: ./gone does not exist",
				"README.md:3: ./examples/gone does not exist",
				"README.md:5: ./gone.go does not exist",
				"docs/one.md:1: ../gone.md does not exist",
				"docs/one.md:2: gone.png does not exist",
				"tutorial.md:3: ./yours does not exist",
			},
		},
	})
}
