package house

import (
	"fmt"
	"go/ast"
	"go/doc"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
)

const optionsPage = "docs/options.md"

// optionsOf are the directories whose options the page lists, in its order.
var optionsOf = []string{".", "server", "outbox", "inbox", "gateway", "console", "webhook"}

// optionTable returns the rows of a package's options: each exported function that returns an option, with the first
// sentence of its comment.
func optionTable(t *tree, dir string) string {
	var rows []string
	for _, f := range t.packages()[dir] {
		for _, decl := range f.syntax.Decls {
			d, ok := decl.(*ast.FuncDecl)
			if !ok || d.Recv != nil || !d.Name.IsExported() || !returnsOption(d.Type.Results) {
				continue
			}
			first := strings.TrimPrefix(new(doc.Package).Synopsis(d.Doc.Text()), d.Name.Name+" ")
			first = strings.NewReplacer("[", "", "]", "", "|", "\\|").Replace(first)
			rows = append(rows, fmt.Sprintf("| `%s` | %s |\n", d.Name.Name, first))
		}
	}
	slices.Sort(rows)
	return "| Option | Meaning |\n|---|---|\n" + strings.Join(rows, "")
}

func returnsOption(results *ast.FieldList) bool {
	if results == nil || len(results.List) != 1 {
		return false
	}
	id, ok := results.List[0].Type.(*ast.Ident)
	return ok && strings.HasSuffix(id.Name, "Option")
}

// optionPage returns the page: the options of each package.
func optionPage(t *tree) string {
	var b strings.Builder
	b.WriteString("# Options\n\nEach option's comment has its default, its unit and the meaning of zero: `go doc " +
		modulePath + "/server Wait`.\n" +
		"This page is made from these comments: `REDO_TEST_UPDATE=1 go test ./internal/house` writes it.\n")
	for _, dir := range optionsOf {
		name := strings.TrimSuffix(modulePath+"/"+dir, "/.")
		fmt.Fprintf(&b, "\n## %s\n\n%s", name[strings.LastIndex(name, "/")+1:], optionTable(t, dir))
	}
	return b.String()
}

// checkOptions requires that the page of options matches the comments.
func checkOptions(t *tree) []string {
	page, err := fs.ReadFile(t.fsys, optionsPage)
	if err != nil || string(page) != optionPage(t) {
		return []string{optionsPage + " is not made from these comments: run the tests with REDO_TEST_UPDATE=1"}
	}
	return nil
}

func TestOptions(t *testing.T) {
	if os.Getenv("REDO_TEST_UPDATE") != "" {
		repo, err := checkout()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("../../"+optionsPage, []byte(optionPage(repo)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	holds(t, checkOptions)
}

func TestOptionsCanFail(t *testing.T) {
	const source = "package server\n\n// Wait waits. It has\n// [Zero].\nfunc Wait() Option { return nil }\n\n" +
		"// Key returns a key.\nfunc Key() string { return \"\" }\n"
	tr, err := load(inMemory(map[string]string{"server/a.go": source}))
	if err != nil {
		t.Fatal(err)
	}
	page := optionPage(tr)
	if want := "\n## server\n\n| Option | Meaning |\n|---|---|\n| `Wait` | " +
		"waits. |\n\n## outbox"; !strings.Contains(page, want) {
		t.Errorf("the page is\n%s", page)
	}
	finds(t, checkOptions, []breach{
		{
			rule:  "a page made from the comments is no violation",
			files: map[string]string{"server/a.go": source, optionsPage: page},
		},
		{
			rule:  "an option that the page lacks is found",
			files: map[string]string{"server/a.go": strings.ReplaceAll(source, "Wait", "Rest"), optionsPage: page},
			want:  []string{optionsPage + " is not made from these comments: run the tests with REDO_TEST_UPDATE=1"},
		},
	})
}
