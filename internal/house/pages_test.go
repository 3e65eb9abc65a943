package house

import (
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	fence   = regexp.MustCompile("(?ms)^```.*?^```$")
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	noSlug  = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	docPage = regexp.MustCompile(`\bdocs/[\w-]+\.md\b`)
)

// pages returns the text of each Markdown file, without its fenced blocks.
func (t *tree) pages() map[string]string {
	pages := map[string]string{}
	for _, p := range t.paths {
		if content, err := fs.ReadFile(t.fsys, p); err == nil && path.Ext(p) == ".md" {
			pages[p] = fence.ReplaceAllString(string(content), "")
		}
	}
	return pages
}

// links returns the targets of a page's links, in order.
func links(page string) []string {
	var targets []string
	for line := range strings.Lines(codeSpan.ReplaceAllString(page, "code")) {
		found := inlineLink.FindAllStringSubmatch(line, -1)
		for _, m := range append(found, referenceLink.FindAllStringSubmatch(line, -1)...) {
			targets = append(targets, m[1])
		}
	}
	return targets
}

// anchors returns the anchors of a page's headings, as GitHub makes them.
func anchors(page string) []string {
	var found []string
	times := map[string]int{}
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		text := inlineLink.ReplaceAllString(m[1], "]")
		slug := strings.ReplaceAll(noSlug.ReplaceAllString(strings.ToLower(strings.TrimSpace(text)), ""), " ", "-")
		if n := times[slug]; n > 0 {
			found = append(found, fmt.Sprintf("%s-%d", slug, n))
		} else {
			found = append(found, slug)
		}
		times[slug]++
	}
	return found
}

// checkAnchors wants each anchor of a link to be a heading, and each external link to be a URL.
func checkAnchors(t *tree) []string {
	pages := t.pages()
	var found []string
	for _, p := range t.paths {
		for _, target := range links(pages[p]) {
			if hasScheme.MatchString(target) {
				if u, err := url.Parse(target); err != nil || u.Scheme != "https" || u.Host == "" {
					found = append(found, fmt.Sprintf("%s: %s is no https URL", p, target))
				}
				continue
			}
			file, anchor, _ := strings.Cut(target, "#")
			to := p
			if file != "" {
				to = path.Join(path.Dir(p), file)
			}
			if page, ok := pages[to]; ok && anchor != "" && !slices.Contains(anchors(page), anchor) {
				found = append(found, fmt.Sprintf("%s: %s has no heading #%s", p, to, anchor))
			}
		}
	}
	return found
}

// checkReach wants a path of links from README.md to each page of docs.
func checkReach(t *tree) []string {
	pages := t.pages()
	reached := map[string]bool{"README.md": true}
	for queue := []string{"README.md"}; len(queue) > 0; queue = queue[1:] {
		for _, target := range links(pages[queue[0]]) {
			file, _, _ := strings.Cut(target, "#")
			to := path.Join(path.Dir(queue[0]), file)
			if _, ok := pages[to]; ok && !reached[to] {
				reached[to] = true
				queue = append(queue, to)
			}
		}
	}
	var found []string
	for _, p := range t.paths {
		if within(p, "docs") && path.Ext(p) == ".md" && !reached[p] {
			found = append(found, p+": no links lead here from README.md")
		}
	}
	return found
}

// checkNamedPages wants each page of docs that a Go file names to exist.
func checkNamedPages(t *tree) []string {
	var found []string
	for _, f := range t.files {
		for _, group := range f.syntax.Comments {
			for _, page := range docPage.FindAllString(group.Text(), -1) {
				if !t.exists(".", page) {
					found = append(found, fmt.Sprintf("%s: %s does not exist", t.at(group.Pos()), page))
				}
			}
		}
	}
	return found
}

func TestAnchors(t *testing.T) { holds(t, checkAnchors) }

func TestAnchorsCanFail(t *testing.T) {
	const page = "# A page\n## `Do`, and more\n## Twice\n## Twice\n```\n# no heading [x](#y)\n```\n"
	finds(t, checkAnchors, []breach{
		{
			rule: "anchors of headings, other files and https URLs are no violation",
			files: map[string]string{
				"a.md": page +
					"[1](#a-page) [2](#do-and-more) [3](#twice-1) [4](doc.go#L1) [5](https://example.com/x#y)\n",
				"d/b.md": "[1](../a.md#twice)\n`[x](#gone)`\n",
				"doc.go": "package redo",
			},
		},
		{
			rule: "an anchor without its heading, and an odd URL, are found",
			files: map[string]string{
				"a.md":   page + "[1](#no-heading) [2](http://example.com) [3](https:///x)\n\n[4]: #twice-2\n",
				"d/b.md": "[1](../a.md#Twice)\n",
			},
			want: []string{
				"a.md: a.md has no heading #no-heading",
				"a.md: http://example.com is no https URL",
				"a.md: https:///x is no https URL",
				"a.md: a.md has no heading #twice-2",
				"d/b.md: a.md has no heading #Twice",
			},
		},
	})
}

func TestReach(t *testing.T) { holds(t, checkReach) }

func TestReachCanFail(t *testing.T) {
	finds(t, checkReach, []breach{{
		rule: "a page that only an unreached page links to is found",
		files: map[string]string{
			"README.md":       "[1](docs/one.md#x)\n```\n[3](docs/three.md)\n```\n",
			"docs/one.md":     "[2](two.md)\n",
			"docs/two.md":     "[1](one.md)\n",
			"docs/three.md":   "[4](four.md)\n",
			"docs/four.md":    "",
			"docs/image.png":  "",
			"other/readme.md": "",
		},
		want: []string{
			"docs/four.md: no links lead here from README.md",
			"docs/three.md: no links lead here from README.md",
		},
	}})
}

func TestNamedPages(t *testing.T) { holds(t, checkNamedPages) }

func TestNamedPagesCanFail(t *testing.T) {
	finds(t, checkNamedPages, []breach{{
		rule: "a comment that names a page that is gone is found",
		files: map[string]string{
			"docs/one.md": "",
			"a.go": "// Package a: see docs/one.md, not docs/of/others.md.\npackage a\n\n// f: see " +
				"docs/gone.md.\nfunc f() {}\n",
		},
		want: []string{"a.go:4: docs/gone.md does not exist"},
	}})
}
