package page

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redo-go/redo/conformance"
)

// render returns the page of reports.
func render(t testing.TB, reports ...conformance.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, reports...); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// styled replaces a golden page's style and script, which have files of their own.
var styled = strings.NewReplacer(pageStyle, "/* page.css */", pageScript, "/* page.js */")

// The golden pages show the changes of a page in a review. REDO_TEST_UPDATE=1 writes them.
func TestPagesAreWhatTheyWere(t *testing.T) {
	for name, reports := range map[string][]conformance.Report{
		"report.html": {without(sample(), "conc-many", "conc-race",
			"replay-huge")}, // they are long, and have tests of their own
		"matrix.html": {clean(), only(sample(), "replay-twice", "mismatch-better", "zeta-unheard-of"), unreachable()},
	} {
		t.Run(name, func(t *testing.T) {
			got, file := styled.Replace(render(t, reports...)), filepath.Join("testdata", name)
			if os.Getenv("REDO_TEST_UPDATE") == "1" {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("the page is not %s; see what changed with REDO_TEST_UPDATE=1 and git diff", file)
			}
		})
	}
}

func without(r conformance.Report, slugs ...string) conformance.Report {
	r.Results = slices.DeleteFunc(r.Results, func(res conformance.Result) bool {
		return slices.Contains(slugs,
			res.Slug)
	})
	return r
}

func only(r conformance.Report, slugs ...string) conformance.Report {
	r.Results = slices.DeleteFunc(r.Results, func(res conformance.Result) bool {
		return !slices.Contains(slugs,
			res.Slug)
	})
	return r
}

func TestTheSameReportMakesTheSameBytesAlsoWhenItWasKept(t *testing.T) {
	r := sample()
	r.Target = "shop" // JSON has no bytes that are no UTF-8
	r.Results = r.Results[2:]
	document, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var kept conformance.Report
	if err := json.Unmarshal(document, &kept); err != nil {
		t.Fatal(err)
	}
	if render(t, r) != render(t, kept) {
		t.Error("a report that was written and read again has another page")
	}
}

var (
	loading = regexp.MustCompile(`(?i)<(link|img|iframe|object|embed|base|audio|video|source|frame|input [^>]*type="?image)\b|\s(src|srcset|style|on\w+|action|formaction|background|poster|ping)\s*=|url\(|@import|@font-face|fetch\(|XMLHttpRequest|WebSocket|javascript:`)
	href    = regexp.MustCompile(`\shref="([^"]*)"`)
)

func TestPageHasNothingThatLoadsOrRuns(t *testing.T) {
	page := render(t, sample(), clean())
	for _, tag := range regexp.MustCompile(`<[^>]*>`).FindAllString(page, -1) {
		// Text is between quotation marks.
		if bare := regexp.MustCompile(`"[^"]*"`).ReplaceAllString(tag, `""`); loading.MatchString(bare) {
			t.Errorf("%s", tag)
		}
	}
	for _, m := range href.FindAllStringSubmatch(page, -1) {
		if !strings.HasPrefix(m[1], "#") {
			t.Errorf("a link leads to %s", m[1])
		}
	}
	if n := strings.Count(page, "<script"); n != 1 {
		t.Errorf("there are %d scripts and not 1: what a server has said became one", n)
	}
	if loading.MatchString(pageStyle) || loading.MatchString(pageScript) {
		t.Error("the style or the script loads something")
	}
}

func TestAnchorsAreOfOneElementEachAndLinksLeadSomewhere(t *testing.T) {
	for name, page := range map[string]string{"report": render(t, sample()),
		"matrix": render(t, sample(), clean(), unreachable())} {
		seen := map[string]bool{}
		for _, m := range regexp.MustCompile(`\sid="([^"]*)"`).FindAllStringSubmatch(page, -1) {
			if seen[m[1]] {
				t.Errorf("%s: two elements have the id %s", name, m[1])
			}
			seen[m[1]] = true
		}
		for _, m := range href.FindAllStringSubmatch(page, -1) {
			if !seen[strings.TrimPrefix(m[1], "#")] {
				t.Errorf("%s: a link leads to %s, which is not there", name, m[1])
			}
		}
	}
}

func TestReportThatIsNoneIsRefusedWithNothingWritten(t *testing.T) {
	change := func(f func(*conformance.Report)) []conformance.Report {
		r := sample()
		f(&r)
		return []conformance.Report{clean(), r}
	}
	for name, c := range map[string]struct {
		reports []conformance.Report
		says    string
	}{
		"no report": {nil, "there is none"},
		"another schema": {change(func(r *conformance.Report) { r.Schema = "redo.conformance/2" }),
			`"redo.conformance/2"`},
		"a bad slug": {change(func(r *conformance.Report) { r.Results[1].Slug = `a" onclick="` }),
			"no case's slug"},
		"no slug": {change(func(r *conformance.Report) { r.Results[1].Slug = "" }), "no case's slug"},
		"a slug twice": {change(func(r *conformance.Report) { r.Results[1].Slug = r.Results[0].Slug }),
			"two results of ctl-answers"},
		"another verdict": {change(func(r *conformance.Report) { r.Results[1].Verdict = "fine" }), `"fine"`},
		"a null exchange": {change(func(r *conformance.Report) { r.Results[2].Exchanges[1] = nil }),
			"an exchange that is null"},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			err := Write(&b, c.reports...)
			if !errors.Is(err, ErrReport) || !strings.Contains(err.Error(), c.says) || b.Len() > 0 {
				t.Errorf("%v, with %d bytes written; want an ErrReport that says %s, and none", err, b.Len(), c.says)
			}
		})
	}
}

type brokenWriter struct{}

var errDisk = errors.New("the disk is full")

func (brokenWriter) Write([]byte) (int, error) { return 0, errDisk }

func TestErrorOfTheWriterIsReturned(t *testing.T) {
	if err := Write(brokenWriter{}, clean()); !errors.Is(err, errDisk) || errors.Is(err, ErrReport) {
		t.Errorf("%v", err)
	}
}
