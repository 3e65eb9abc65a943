package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
)

// modulePath is the root module's; nested modules append to it.
const modulePath = "github.com/redo-go/redo"

// A tree is a checkout: its paths, and its Go files parsed. Paths are slash-separated and start at the root.
type tree struct {
	fsys  fs.FS
	fset  *token.FileSet
	paths []string // files and directories, except those that never belong to the repository
	files []goFile // Go files that the go command builds, so none below testdata
}

type goFile struct {
	path   string
	dir    string // "." for the root package
	test   bool
	lines  int
	syntax *ast.File
}

// load reads a checkout. A Go file that can't be parsed is an error, since no rule could be checked on it.
func load(fsys fs.FS) (*tree, error) {
	t := &tree{fsys: fsys, fset: token.NewFileSet()}
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case p == "." || p == ".git" && !d.IsDir(): // in a worktree it is a file that names the repository
			return nil
		case d.Name() == ".git" && !d.IsDir():
			return nil // a linked worktree has a file there
		case d.IsDir() && (d.Name() == ".git" || p == ".cache" || p == "bin"):
			return fs.SkipDir // .gitignore keeps them out of the repository
		}
		t.paths = append(t.paths, p)
		if d.IsDir() || path.Ext(p) != ".go" || hidden(p) {
			return nil
		}
		return t.parse(p)
	})
	return t, err
}

func (t *tree) parse(p string) error {
	src, err := fs.ReadFile(t.fsys, p)
	if err != nil {
		return err
	}
	syntax, err := parser.ParseFile(t.fset, p, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	t.files = append(t.files, goFile{
		path:   p,
		dir:    path.Dir(p),
		test:   strings.HasSuffix(p, "_test.go"),
		lines:  bytes.Count(src, []byte("\n")),
		syntax: syntax,
	})
	return nil
}

// hidden reports whether the go command leaves a path out of "./...".
func hidden(p string) bool {
	for elem := range strings.SplitSeq(p, "/") {
		if elem == "testdata" || elem == "vendor" || elem[0] == '.' || elem[0] == '_' {
			return true
		}
	}
	return false
}

// packages groups the files that are not tests by directory. A directory of tests alone is no package.
func (t *tree) packages() map[string][]goFile {
	byDir := map[string][]goFile{}
	for _, f := range t.files {
		if !f.test {
			byDir[f.dir] = append(byDir[f.dir], f)
		}
	}
	return byDir
}

// at writes a position the way compilers do, so that editors can jump to it.
func (t *tree) at(pos token.Pos) string {
	p := t.fset.Position(pos)
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}

// A check finds the violations of one rule, each as "place: the fault and the rule".
type check func(*tree) []string

// checkout is this repository, read once for all rules.
var checkout = sync.OnceValues(func() (*tree, error) { return load(os.DirFS("../..")) })

// holds fails the test with each violation that the check finds in this repository.
func holds(t *testing.T, c check) {
	t.Helper()
	repo, err := checkout()
	if err != nil {
		t.Fatal(err)
	}
	if len(repo.files) == 0 {
		t.Fatal("house: no Go file found, so nothing would be checked")
	}
	for _, v := range c(repo) {
		t.Error(v)
	}
}

// A breach is a tree in memory and the violations that a check must find there.
type breach struct {
	rule  string
	files map[string]string
	want  []string
}

// finds proves that the check finds the violations of each breach, and nothing else.
func finds(t *testing.T, c check, breaches []breach) {
	t.Helper()
	for _, b := range breaches {
		t.Run(b.rule, func(t *testing.T) {
			tr, err := load(inMemory(b.files))
			if err != nil {
				t.Fatal(err)
			}
			if got := c(tr); !slices.Equal(got, b.want) {
				t.Errorf("violations:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(b.want, "\n"))
			}
		})
	}
}

// inMemory returns a file system of these files.
func inMemory(files map[string]string) fs.FS {
	fsys := fstest.MapFS{}
	for name, content := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return fsys
}

func TestLoad(t *testing.T) {
	t.Run("a file that does not parse is an error", func(t *testing.T) {
		_, err := load(fstest.MapFS{"a.go": {Data: []byte("package")}})
		if err == nil {
			t.Error("no error")
		}
	})
	t.Run("testdata and hidden directories hold no packages", func(t *testing.T) {
		tr, err := load(fstest.MapFS{
			"a/a.go":            {Data: []byte("package a")},
			"a/testdata/x.go":   {Data: []byte("not Go")},
			".ci/x.go":          {Data: []byte("not Go")},
			"_old/x.go":         {Data: []byte("not Go")},
			".git/config":       {},
			".cache/bin/linter": {},
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(tr.files) != 1 || tr.files[0].path != "a/a.go" {
			t.Errorf("files: %v", tr.files)
		}
		for _, p := range tr.paths {
			if strings.HasPrefix(p, ".git/") || strings.HasPrefix(p, ".cache") {
				t.Errorf("%s is no part of the repository", p)
			}
		}
	})
}
