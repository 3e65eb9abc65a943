package house

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"
)

// checkPackageComments wants one package comment, in one file, that starts as go doc expects.
func checkPackageComments(t *tree) []string {
	var found []string
	pkgs := t.packages()
	for _, dir := range slices.Sorted(maps.Keys(pkgs)) {
		var comments []string
		for _, f := range pkgs[dir] {
			if text := f.syntax.Doc.Text(); text != "" {
				comments = append(comments, text)
			}
		}
		name := pkgs[dir][0].syntax.Name.Name
		switch {
		case len(comments) != 1:
			found = append(found,
				fmt.Sprintf("%s: package %s has %d package comments, it must have one", dir, name, len(comments)))
		case name != "main" && !strings.HasPrefix(comments[0], "Package "+name+" "):
			found = append(found, fmt.Sprintf("%s: the package comment must start with \"Package %s \"", dir, name))
		}
	}
	return found
}

// checkExamples wants an Example with checked output for every package that others import. A package made for
// tests takes a testing.TB, which an Example hasn't got, so there it is enough that the Example compiles.
func checkExamples(t *tree) []string {
	tests := map[string][]*ast.File{}
	for _, f := range t.files {
		if f.test {
			tests[f.dir] = append(tests[f.dir], f.syntax)
		}
	}
	var found []string
	pkgs := t.packages()
	for _, dir := range slices.Sorted(maps.Keys(pkgs)) {
		rule := importRules[ruledBy(dir)]
		if rule.anything || within(dir, "internal") || strings.Contains(dir, "/internal/") {
			continue
		}
		enough := slices.ContainsFunc(doc.Examples(tests[dir]...), func(e *doc.Example) bool {
			return rule.testing || e.Output != "" || e.EmptyOutput
		})
		if !enough {
			found = append(found, fmt.Sprintf("%s: the package has no Example whose output is checked", dir))
		}
	}
	return found
}

// checkExported requires a comment on every exported name. Constants and variables may share their block's, or
// have one at the end of their line. The comment of an interface may describe its methods.
func checkExported(t *tree) []string {
	var found []string
	for _, f := range t.files {
		if f.test || f.syntax.Name.Name == "main" {
			continue
		}
		for _, name := range undocumented(f.syntax) {
			found = append(found, fmt.Sprintf("%s: exported %s has no doc comment", t.at(name.Pos()), name.Name))
		}
	}
	return found
}

// undocumented returns the exported names of a file that have no comment, in order.
func undocumented(f *ast.File) []*ast.Ident {
	var names []*ast.Ident
	want := func(name *ast.Ident, comments ...*ast.CommentGroup) {
		said := slices.ContainsFunc(comments, func(c *ast.CommentGroup) bool { return c.Text() != "" })
		if name.IsExported() && !said {
			names = append(names, name)
		}
	}
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || receiver(d).IsExported() {
				want(d.Name, d.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.ValueSpec:
					for _, name := range s.Names {
						want(name, d.Doc, s.Doc, s.Comment)
					}
				case *ast.TypeSpec:
					own := s.Doc
					if d.Lparen == token.NoPos {
						own = d.Doc
					}
					want(s.Name, own)
					if i, ok := s.Type.(*ast.InterfaceType); ok && s.Name.IsExported() {
						for _, m := range i.Methods.List {
							for _, name := range m.Names {
								if !strings.Contains(own.Text(), name.Name) {
									want(name, m.Doc, m.Comment)
								}
							}
						}
					}
				}
			}
		}
	}
	return names
}

// receiver returns the name of a method's type, below pointers and type parameters.
func receiver(d *ast.FuncDecl) *ast.Ident {
	expr := d.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.ParenExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e
		default:
			return ast.NewIdent("_") // no other form compiles
		}
	}
}

func TestPackageComments(t *testing.T) { holds(t, checkPackageComments) }

func TestPackageCommentsCanFail(t *testing.T) {
	finds(t, checkPackageComments, []breach{{
		rule: "none, two, and one that go doc would not show well are violations",
		files: map[string]string{
			"a/a.go":      "package a",
			"a/a_test.go": "// Package a is documented in the wrong file.\npackage a",
			"b/b.go":      "// Package b is documented twice.\npackage b",
			"b/doc.go":    "// Package b is documented twice.\npackage b",
			"c/c.go":      "// This is package c.\npackage c",
			"d/d.go":      "// Package d is documented.\npackage d",
			"d/more.go":   "package d",
			"e/main.go":   "// Command e runs.\npackage main",
		},
		want: []string{
			"a: package a has 0 package comments, it must have one",
			"b: package b has 2 package comments, it must have one",
			`c: the package comment must start with "Package c "`,
		},
	}})
}

func TestExamples(t *testing.T) { holds(t, checkExamples) }

func TestExamplesCanFail(t *testing.T) {
	const unchecked = "func Example() { println() }\n"
	const checked = "func Example() {\n\tprintln()\n\t// Output: yes\n}\n"
	finds(t, checkExamples, []breach{{
		rule: "an Example that is missing or prints into the void is a violation",
		files: map[string]string{
			"redo.go":                   "package redo",
			"server/s.go":               "package server",
			"server/s_test.go":          "package server_test\n" + unchecked,
			"store/s.go":                "package store",
			"store/s_test.go":           "package store_test\n" + checked,
			"store/storetest/s.go":      "package storetest",
			"store/storetest/s_test.go": "package storetest_test\n" + unchecked,
			"servertest/s.go":           "package servertest",
			"internal/wire/w.go":        "package wire",
			"examples/gateway/main.go":  "package main",
		},
		want: []string{
			".: the package has no Example whose output is checked",
			"server: the package has no Example whose output is checked",
			"servertest: the package has no Example whose output is checked",
		},
	}})
}

func TestExported(t *testing.T) { holds(t, checkExported) }

func TestExportedCanFail(t *testing.T) {
	finds(t, checkExported, []breach{
		{
			rule: "each undocumented name is found",
			files: map[string]string{"a/a.go": `package a

func F() {}

type T struct{}

func (T) M() {}

func (*T) N() {}

type G[A any] struct{}

func (g *G[A]) O() {}

//go:noinline
func Directive() {}

const A, B = 1, 2

// The block's comment is not the type's.
type (
	U int
)

// I is documented.
type I interface {
	P()
}
`},
			want: []string{
				"a/a.go:3: exported F has no doc comment",
				"a/a.go:5: exported T has no doc comment",
				"a/a.go:7: exported M has no doc comment",
				"a/a.go:9: exported N has no doc comment",
				"a/a.go:11: exported G has no doc comment",
				"a/a.go:13: exported O has no doc comment",
				"a/a.go:16: exported Directive has no doc comment",
				"a/a.go:18: exported A has no doc comment",
				"a/a.go:18: exported B has no doc comment",
				"a/a.go:22: exported U has no doc comment",
				"a/a.go:27: exported P has no doc comment",
			},
		},
		{
			rule: "a name that is documented or not exported is no violation",
			files: map[string]string{
				"a/a.go": `package a

// F is documented.
func F() {}

func f() {}

type t struct{}

func (t) String() string { return "" }

// The block is documented.
const (
	A = 1
	B = 2
)

var (
	// C is documented above.
	C int
	D int // D is documented beside
)

type (
	// U is documented.
	U int
)

// I is documented.
type I interface {
	// P is documented.
	P()
	Q() // documented beside
	hidden()
}

// J is called through R.
type J interface{ R() }
`,
				"a/a_test.go": "package a\nfunc TestF() {}",
				"b/main.go":   "package main\nfunc Exported() {}",
			},
		},
	})
}
