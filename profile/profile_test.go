package profile_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/profile"
	"github.com/redo-go/redo/taxonomy"
)

// profiles has each profile under the name of its file and of its variable.
var profiles = map[string]struct {
	variable string
	profile  redo.Profile
}{
	"acp":         {"ACP", profile.ACP},
	"adcp":        {"AdCP", profile.AdCP},
	"adyen":       {"Adyen", profile.Adyen},
	"aws":         {"AWS", profile.AWS},
	"azure":       {"Azure", profile.Azure},
	"checkoutcom": {"CheckoutCom", profile.CheckoutCom},
	"echopro":     {"EchoPro", profile.EchoPro},
	"formance":    {"Formance", profile.Formance},
	"github":      {"GitHub", profile.GitHub},
	"gitlab":      {"GitLab", profile.GitLab},
	"iceberg":     {"Iceberg", profile.Iceberg},
	"ietf":        {"IETF", profile.IETF},
	"mollie":      {"Mollie", profile.Mollie},
	"paypal":      {"PayPal", profile.PayPal},
	"shopify":     {"Shopify", profile.Shopify},
	"square":      {"Square", profile.Square},
	"stripe":      {"Stripe", profile.Stripe},
	"twilio":      {"Twilio", profile.Twilio},
	"ucp":         {"UCP", profile.UCP},
}

func TestEachProfileIsAccepted(t *testing.T) {
	for name, p := range profiles {
		client, err := redo.New(redo.WithProfile(p.profile))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := client.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for word, code := range p.profile.Codes {
			if !code.In(code.Family()) || code.Hint() == "" {
				t.Errorf("%s: the code of %q is %q, which has no meaning", name, word, code)
			}
		}
	}
}

func TestAProfileThatContradictsItselfIsRefused(t *testing.T) {
	p := profile.Square
	p.NoKeys = true
	if _, err := redo.New(redo.WithProfile(p)); err == nil {
		t.Error("KeyInBody and NoKeys were both accepted")
	}
}

// TestEachFileHasOneDocumentedProfile reads the package's own source: one profile per file, named like the file, with
// a public source.
func TestEachFileHasOneDocumentedProfile(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, entry := range entries {
		base, isGo := strings.CutSuffix(entry.Name(), ".go")
		if !isGo || strings.HasSuffix(base, "_test") || base == "doc" || base == "learn" {
			continue
		}
		seen++
		src, err := os.ReadFile(entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range undocumented(t, base, string(src)) {
			t.Errorf("%s: %s", entry.Name(), problem)
		}
		p, ok := profiles[base]
		if !ok {
			t.Errorf("%s: its profile is not in the table of this test", entry.Name())
		} else if p.profile.Name != base {
			t.Errorf("%s: the profile's name is %q", entry.Name(), p.profile.Name)
		}
	}
	if seen != len(profiles) {
		t.Errorf("%d files with profiles, and %d profiles in the table of this test", seen, len(profiles))
	}
}

func TestAnUndocumentedProfileIsFound(t *testing.T) {
	const pkg = "package profile\n\n"
	for name, src := range map[string]string{
		"no comment": pkg + "var Stripe = redo.Profile{}\n",
		"no source":  pkg + "// Stripe describes Stripe.\nvar Stripe = redo.Profile{}\n",
		"another name": pkg +
			"// Describes Stripe.\n//\n// Source: https://stripe.com/a\nvar Stripe = redo.Profile{}\n",
		"a second one":   pkg + "// Stripe describes it.\n//\n// Source: https://stripe.com/a\nvar Stripe, B = 1, 2\n",
		"no profile":     pkg + "const a = 1\n",
		"a bare address": pkg + "// Stripe describes it.\n//\n// Source: Stripe\nvar Stripe = redo.Profile{}\n",
	} {
		if len(undocumented(t, "stripe", src)) == 0 {
			t.Errorf("%s: nothing was found", name)
		}
	}
	good := pkg + "// Stripe describes it.\n//\n// Source: https://stripe.com/a\nvar Stripe = redo.Profile{}\n"
	if found := undocumented(t, "stripe", good); found != nil {
		t.Errorf("a documented profile: %v", found)
	}
}

var sourceLine = regexp.MustCompile(`(?m)^Source: https://[a-z0-9.-]+\.[a-z]+/\S+`)

// undocumented returns the parts that the file lacks: one exported variable, with a comment that starts with its
// name and has a source.
func undocumented(t *testing.T, base, src string) (problems []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), base+".go", src, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	exported := 0
	for _, decl := range f.Decls {
		vars, ok := decl.(*ast.GenDecl)
		if !ok || vars.Tok != token.VAR {
			continue
		}
		for _, spec := range vars.Specs {
			for _, name := range spec.(*ast.ValueSpec).Names {
				if !name.IsExported() {
					continue
				}
				exported++
				if !strings.HasPrefix(vars.Doc.Text(), name.Name+" ") {
					problems = append(problems, "the comment does not start with "+name.Name)
				}
				if !sourceLine.MatchString(vars.Doc.Text()) {
					problems = append(problems, "the comment has no line with a source")
				}
				if p, ok := profiles[base]; ok && p.variable != name.Name {
					problems = append(problems, "the variable is "+name.Name)
				}
			}
		}
	}
	if exported != 1 {
		problems = append(problems, "the file has not exactly one exported variable")
	}
	return problems
}

// A word that the shared table knows needs no place in a profile, unless the profile changes its meaning.
func TestCodesRepeatNoSharedWord(t *testing.T) {
	for name, p := range profiles {
		for word, code := range p.profile.Codes {
			v := taxonomy.Classify(taxonomy.Answer{Status: 400, Body: []byte(`{"code":"` + word + `"}`)})
			if v.Code == code {
				t.Errorf("%s: %q has the same meaning in package taxonomy", name, word)
			}
		}
	}
}
