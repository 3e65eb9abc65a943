package house

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redo-go/redo/internal/racetest"
)

// maxLines is the length at which a Go file holds more than one noun.
const maxLines = 450

func checkSizes(t *tree) []string {
	var found []string
	for _, f := range t.files {
		if f.lines >= maxLines {
			found = append(found,
				fmt.Sprintf("%s: %d lines, a file has fewer than %d: one noun a file", f.path, f.lines, maxLines))
		}
	}
	return found
}

// emptyNames do not name a purpose. Anything put there has a better place.
var emptyNames = []string{"common", "helper", "helpers", "misc", "types", "util", "utils"}

func checkNames(t *tree) []string {
	var found []string
	named := map[string]bool{}
	for _, f := range t.files {
		pkg := f.syntax.Name.Name
		if slices.Contains(emptyNames, strings.TrimSuffix(pkg, "_test")) && !named[f.dir] {
			named[f.dir] = true
			found = append(found, fmt.Sprintf("%s: package %s: a package is named after its contents", f.path, pkg))
		}
		base := strings.TrimSuffix(strings.TrimSuffix(path.Base(f.path), ".go"), "_test")
		if slices.Contains(emptyNames, base) {
			found = append(found, fmt.Sprintf("%s: a file is named after its noun", f.path))
		}
	}
	return found
}

var (
	// machinePath matches an absolute path in a home or a work directory. The text before it must not be part of a
	// longer path or a URL. The parts of the paths are joined here, because this file must not contain them either.
	machinePath = regexp.MustCompile(`(?:^|[^\w.~%/})-])/(?:` +
		strings.Join([]string{"work", "root", "home", "Users"}, "|") + `)/\w`)

	// registryHost matches the hosts that packages are fetched from. Which one is used is the environment's choice.
	registryHost = regexp.MustCompile(`\b(?:` + strings.Join([]string{
		`(?:proxy|sum|index)\.golang`, `goproxy`, `registry\.npmjs`, `pypi`, `(?:deb|security|ftp)\.debian`,
	}, "|") + `)\.(?:org|io|cn|com)\b`)
)

// checkLeaks looks into every text file, not only into Go.
func checkLeaks(t *tree) []string {
	var found []string
	for _, p := range t.paths {
		info, err := fs.Stat(t.fsys, p)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		content, err := fs.ReadFile(t.fsys, p)
		if err != nil {
			found = append(found, p+": "+err.Error())
			continue
		}
		if bytes.IndexByte(content, 0) >= 0 {
			continue // binary
		}
		number := 0
		for line := range bytes.Lines(content) {
			number++
			if machinePath.Match(line) {
				found = append(found, fmt.Sprintf("%s:%d: holds an absolute path of one machine", p, number))
			}
			if registryHost.Match(line) {
				found = append(found,
					fmt.Sprintf("%s:%d: names a package registry's host: GOPROXY sets the one to use", p, number))
			}
		}
	}
	return found
}

func TestSizes(t *testing.T) { holds(t, checkSizes) }

func TestSizesCanFail(t *testing.T) {
	finds(t, checkSizes, []breach{{
		rule: "the line that is one too many is a violation",
		files: map[string]string{
			"a.go":      "package a" + strings.Repeat("\n", maxLines-1),
			"b_test.go": "package a" + strings.Repeat("\n", maxLines),
		},
		want: []string{"b_test.go: 450 lines, a file has fewer than 450: one noun a file"},
	}})
}

func TestNames(t *testing.T) { holds(t, checkNames) }

func TestNamesCanFail(t *testing.T) {
	finds(t, checkNames, []breach{{
		rule: "a package and a file without a subject are violations",
		files: map[string]string{
			"a/lease.go":          "package a",
			"a/types.go":          "package a",
			"b/one.go":            "package util",
			"b/two.go":            "package util",
			"c/helpers_test.go":   "package c_test",
			"d/testdata/types.go": "package d",
		},
		want: []string{
			"a/types.go: a file is named after its noun",
			"b/one.go: package util: a package is named after its contents",
			"c/helpers_test.go: a file is named after its noun",
		},
	}})
}

func TestLeaks(t *testing.T) {
	racetest.Repeats(t)
	holds(t, checkLeaks)
}

func TestLeaksCanFail(t *testing.T) {
	const slash = "/"
	leaks := map[string]string{
		"a.md":         "see `" + slash + "root/go/pkg`",
		"b/testdata/x": "one\ncd " + slash + "work/checkout",
		"c.go":         "package c\n// dir=" + slash + "home/someone",
		"d.yml":        slash + "Users/someone",
		"e":            "GOPROXY=https://proxy." + "golang.org,direct",
		"f":            "https://pypi." + "org/simple",
		"fine.md": "https://example.com" + slash + "work/orders and go.work, ./root/x, {base}" + slash +
			"work/x, the " + slash + "work route",
		"fine.bin":        "\x00" + slash + "root/go",
		".git/config":     slash + "root/go",
		"fine/pkg.md":     "https://pkg.go.dev/net/http",
		".cache/bin/lint": slash + "root/go",
	}
	finds(t, checkLeaks, []breach{{
		rule:  "each leak is found in its place",
		files: leaks,
		want: []string{
			"a.md:1: holds an absolute path of one machine",
			"b/testdata/x:2: holds an absolute path of one machine",
			"c.go:2: holds an absolute path of one machine",
			"d.yml:1: holds an absolute path of one machine",
			"e:1: names a package registry's host: GOPROXY sets the one to use",
			"f:1: names a package registry's host: GOPROXY sets the one to use",
		},
	}})
}
