package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A mutant is one change of one file.
type mutant struct {
	name       string // file, function and change; it does not depend on the lines above
	file       string
	start, end int // bytes of the source that text replaces
	text       string
}

// mutantsOf returns the mutants of the package in dir, in the order of the sources. Their names are unique.
func mutantsOf(dir string) ([]mutant, error) {
	p, err := build.ImportDir(dir, 0)
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, name := range p.GoFiles {
		file := filepath.Join(dir, name)
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		some, err := mutate(file, source)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	times := map[string]int{}
	for i := range all {
		name := all[i].name
		if times[name]++; times[name] > 1 {
			all[i].name = fmt.Sprintf("%s #%d", name, times[name])
		}
	}
	return all, nil
}

// mutate returns the mutants of one file.
func mutate(file string, source []byte) ([]mutant, error) {
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	at := func(p token.Pos) int { return fset.Position(p).Offset }
	m := mutator{file: filepath.ToSlash(file), source: source, at: at}
	for _, d := range tree.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			m.function = f.Name.Name
			ast.Inspect(f.Body, m.visit)
		}
	}
	slices.SortStableFunc(m.found, func(a, b mutant) int { return cmp.Compare(a.start, b.start) })
	return m.found, nil
}

// A mutator collects the mutants of a file.
type mutator struct {
	file, function string
	source         []byte
	at             func(token.Pos) int
	found          []mutant
}

// text returns the source of a node, in one line.
func (m *mutator) text(start, end token.Pos) string {
	return strings.Join(strings.Fields(string(m.source[m.at(start):m.at(end)])), " ")
}

// replace adds the mutant that has text in place of the source between start and end. shown is the node that its name
// shows.
func (m *mutator) replace(start, end token.Pos, text string, shown ast.Node) {
	was := m.text(shown.Pos(), shown.End())
	is := string(m.source[m.at(shown.Pos()):m.at(start)]) + text + string(m.source[m.at(end):m.at(shown.End())])
	is = strings.Join(strings.Fields(is), " ")
	m.found = append(m.found, mutant{
		name: fmt.Sprintf("%s %s: %s -> %s", m.file, m.function, was, cmp.Or(is, "nothing")),
		file: m.file, start: m.at(start), end: m.at(end), text: text,
	})
}

// operators lists what each operator becomes.
var operators = map[token.Token][]token.Token{
	token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR},
	token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS},
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL},
	token.LAND: {token.LOR}, token.LOR: {token.LAND},
	token.ADD: {token.SUB}, token.SUB: {token.ADD}, token.MUL: {token.QUO}, token.QUO: {token.MUL},
	token.AND: {token.OR}, token.OR: {token.AND}, token.SHL: {token.SHR}, token.SHR: {token.SHL},
}

// visit adds the mutants of a node. A mutant that does not compile is noticed later.
func (m *mutator) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		for _, op := range operators[n.Op] {
			m.replace(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), op.String(), n)
		}
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			m.replace(n.OpPos, n.OpPos+1, "", n)
		}
	case *ast.BasicLit:
		if n.Kind == token.INT {
			m.replace(n.Pos(), n.End(), "("+n.Value+"+1)", n)
		}
	case *ast.IfStmt:
		cond := m.text(n.Cond.Pos(), n.Cond.End())
		m.replace(n.Cond.Pos(), n.Cond.End(), "("+cond+") || true", n.Cond)
		m.replace(n.Cond.Pos(), n.Cond.End(), "("+cond+") && false", n.Cond)
	case *ast.IncDecStmt:
		other := token.INC
		if n.Tok == token.INC {
			other = token.DEC
		}
		m.replace(n.TokPos, n.TokPos+2, other.String(), n)
	case *ast.ExprStmt:
		if _, ok := n.X.(*ast.CallExpr); ok {
			m.replace(n.Pos(), n.End(), "", n)
		}
	case *ast.DeferStmt:
		m.replace(n.Pos(), n.End(), "", n)
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			m.replace(n.Pos(), n.End(), "", n)
		}
	case *ast.BranchStmt:
		switch n.Tok {
		case token.BREAK:
			m.replace(n.TokPos, n.TokPos+token.Pos(len("break")), "continue", n)
		case token.CONTINUE:
			m.replace(n.TokPos, n.TokPos+token.Pos(len("continue")), "break", n)
		}
	case *ast.ReturnStmt:
		m.returned(n)
	}
	return true
}

// returned replaces an error that is returned, and a constant truth.
func (m *mutator) returned(n *ast.ReturnStmt) {
	for _, r := range n.Results {
		id, ok := r.(*ast.Ident)
		if !ok {
			continue
		}
		if text, ok := map[string]string{"err": "nil", "true": "false", "false": "true"}[id.Name]; ok {
			m.replace(id.Pos(), id.End(), text, n)
		}
	}
}
