package house

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
)

// depsFile is the golden list of the root module's requirements.
const depsFile = "internal/house/testdata/root-deps.txt"

func checkDependencies(t *tree) []string {
	golden, err := fs.ReadFile(t.fsys, depsFile)
	if err != nil {
		return []string{depsFile + ": " + err.Error()}
	}
	agreed := contentLines(string(golden), "#")
	mod, err := fs.ReadFile(t.fsys, "go.mod")
	if err != nil {
		return []string{"go.mod: " + err.Error()}
	}
	required := requirements(string(mod))
	contributing, err := fs.ReadFile(t.fsys, "CONTRIBUTING.md")
	if err != nil {
		return []string{"CONTRIBUTING.md: " + err.Error()}
	}

	var found []string
	for _, r := range required {
		if !slices.Contains(agreed, r) {
			found = append(found,
				fmt.Sprintf("go.mod: requires %q, which %s does not list: no dependency without a reason", r, depsFile))
		}
		if p, ok := strings.CutPrefix(r, "direct "); ok && !strings.Contains(string(contributing), "`"+p+"`") {
			found = append(found, fmt.Sprintf("CONTRIBUTING.md: gives no reason for the dependency %s", p))
		}
	}
	for _, a := range agreed {
		if !slices.Contains(required, a) {
			found = append(found, fmt.Sprintf("%s: lists %q, which go.mod does not require", depsFile, a))
		}
	}
	return found
}

// contentLines returns the lines that hold more than a comment, trimmed.
func contentLines(text, comment string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, comment)
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// requirements returns the require lines of a go.mod file as "direct path" and "indirect path".
func requirements(mod string) []string {
	var reqs []string
	for _, line := range block(mod, "require") {
		kind := "direct"
		if strings.HasSuffix(line, "// indirect") {
			kind = "indirect"
		}
		reqs = append(reqs, kind+" "+strings.Fields(line)[0])
	}
	return reqs
}

// block returns the lines of a directive in a go.mod or go.work file, whether they stand alone or in
// parentheses. The format is line-based, and its files have been through the go command before they come here.
func block(file, directive string) []string {
	var lines []string
	inside := false
	for line := range strings.Lines(file) {
		line = strings.TrimSpace(line)
		switch rest, ok := strings.CutPrefix(line, directive+" "); {
		case inside && line == ")":
			inside = false
		case inside && line != "" && !strings.HasPrefix(line, "//"):
			lines = append(lines, line)
		case ok && rest == "(":
			inside = true
		case ok:
			lines = append(lines, rest)
		}
	}
	return lines
}

// targetsDir holds servers of other projects, to be tried by redo check. Each is a module that stays out of
// go.work. A workspace has one version of everything, so a target's pinned versions would bind our modules, and
// ours the target.
const targetsDir = "conformance/targets"

// checkModules compares go.work with the modules that there are.
func checkModules(t *tree) []string {
	work, err := fs.ReadFile(t.fsys, "go.work")
	if err != nil {
		return []string{"go.work: " + err.Error()}
	}
	var used, found []string
	for _, dir := range block(string(work), "use") {
		used = append(used, path.Clean(dir))
	}
	goLine := block(string(work), "go")
	for _, p := range t.paths {
		if path.Base(p) != "go.mod" || hidden(p) {
			continue
		}
		switch target := within(path.Dir(p), targetsDir); {
		case target && slices.Contains(used, path.Dir(p)):
			found = append(found, fmt.Sprintf("go.work: uses %s, whose versions would bind all modules", path.Dir(p)))
		case !target && !slices.Contains(used, path.Dir(p)):
			found = append(found,
				fmt.Sprintf("go.work: does not use %s, so \"go test work\" would miss its tests", path.Dir(p)))
		}
		mod, err := fs.ReadFile(t.fsys, p)
		if err != nil {
			return append(found, p+": "+err.Error())
		}
		want := path.Join(modulePath, path.Dir(p))
		if got := block(string(mod), "module"); !slices.Equal(got, []string{want}) {
			found = append(found, fmt.Sprintf("%s: the module is %v, its place makes it %s", p, got, want))
		}
		if got := block(string(mod), "go"); !slices.Equal(got, goLine) {
			found = append(found,
				fmt.Sprintf("%s: the go line is %v, go.work's is %v: all modules move together", p, got, goLine))
		}
	}
	return found
}

func TestDependencies(t *testing.T) { holds(t, checkDependencies) }

func TestDependenciesCanFail(t *testing.T) {
	const mod = "module m\n\ngo 1.26.0\n\nrequire example.com/a v1.0.0\n\nrequire (\n\t// why\n\texample.com/b " +
		"v1.0.0\n\texample.com/c v1.0.0 // indirect\n)\n"
	finds(t, checkDependencies, []breach{
		{
			rule: "a list that agrees is no violation",
			files: map[string]string{
				"go.mod":          mod,
				depsFile:          "# agreed\ndirect example.com/a\ndirect example.com/b\nindirect example.com/c\n",
				"CONTRIBUTING.md": "`example.com/a` and `example.com/b`",
			},
		},
		{
			rule: "a new dependency, a lost one and one without a reason are violations",
			files: map[string]string{
				"go.mod": mod,
				depsFile: "direct example.com/a\nindirect example.com/b\nindirect " +
					"example.com/c\nindirect example.com/d\n",
				"CONTRIBUTING.md": "`example.com/a`",
			},
			want: []string{
				`go.mod: requires "direct example.com/b", which ` + depsFile +
					` does not list: no dependency without a reason`,
				`CONTRIBUTING.md: gives no reason for the dependency example.com/b`,
				depsFile + `: lists "indirect example.com/b", which go.mod does not require`,
				depsFile + `: lists "indirect example.com/d", which go.mod does not require`,
			},
		},
		{
			rule:  "a missing list is a violation",
			files: map[string]string{"go.mod": mod},
			want:  []string{depsFile + ": open " + depsFile + ": file does not exist"},
		},
	})
}

func TestModules(t *testing.T) { holds(t, checkModules) }

func TestModulesCanFail(t *testing.T) {
	finds(t, checkModules, []breach{
		{
			rule: "modules that agree are no violation",
			files: map[string]string{
				"go.work":                "go 1.26.0\n\nuse (\n\t.\n\t./examples\n)\n",
				"go.mod":                 "module " + modulePath + "\n\ngo 1.26.0\n",
				"examples/go.mod":        "module " + modulePath + "/examples\n\ngo 1.26.0\n",
				targetsDir + "/x/go.mod": "module " + modulePath + "/" + targetsDir + "/x\n\ngo 1.26.0\n",
			},
		},
		{
			rule: "a target in the workspace is a violation",
			files: map[string]string{
				"go.work":                "go 1.26.0\n\nuse ./" + targetsDir + "/x\n",
				targetsDir + "/x/go.mod": "module " + modulePath + "/" + targetsDir + "/x\n\ngo 1.26.0\n",
			},
			want: []string{"go.work: uses " + targetsDir + "/x, whose versions would bind all modules"},
		},
		{
			rule: "a module that is unused, misnamed or on another Go is a violation",
			files: map[string]string{
				"go.work":         "go 1.26.0\n\nuse .\n",
				"go.mod":          "module " + modulePath + "\n\ngo 1.26.0\n",
				"examples/go.mod": "module example.com/examples\n\ngo 1.25.0\n",
			},
			want: []string{
				`go.work: does not use examples, so "go test work" would miss its tests`,
				"examples/go.mod: the module is [example.com/examples], its place makes it " + modulePath + "/examples",
				"examples/go.mod: the go line is [1.25.0], go.work's is [1.26.0]: all modules move together",
			},
		},
	})
}
