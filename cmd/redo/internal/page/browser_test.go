package page

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redo-go/redo/conformance"
	"github.com/redo-go/redo/internal/browsertest"
	"github.com/redo-go/redo/internal/racetest"
)

// look holds the expectations of check.js about a page.
type look struct {
	Findings, Diagrams, Listed int
	Columns, Rows, Differ      int // of the matrix; zero: there is none
	Search                     string
	Link                       string // an anchor behind something closed
	Scripted                   bool
}

func lookOf(reports ...conformance.Report) look {
	d := newDocument(reports)
	l := look{Scripted: true, Search: "replay-"}
	for _, s := range d.Servers {
		for _, part := range s.Sections {
			for _, r := range part.Results {
				l.Listed++
				if r.Finding {
					l.Findings++
				} else {
					l.Link = r.ID
				}
				if r.Finding && len(r.Exchanges) > 0 {
					l.Diagrams++
				}
			}
		}
	}
	if d.Matrix != nil {
		l.Columns = len(reports) + 1
		for _, part := range d.Matrix.Sections {
			for _, r := range part.Rows {
				l.Rows++
				if r.Differ {
					l.Differ++
				}
			}
		}
	}
	return l
}

// inspect opens a page in phone's and desk's width and in both colour schemes, and returns the faults. The
// network is a proxy that sends no response and counts the requests.
func inspect(t *testing.T, page string, want look) []string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script, err := os.ReadFile("testdata/check.js")
	if err != nil {
		t.Fatal(err)
	}
	expected, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var frames strings.Builder
	sandbox := ""
	if !want.Scripted {
		sandbox = ` sandbox="allow-same-origin"` // and no allow-scripts
	}
	for _, width := range []int{390, 1280} {
		for _, scheme := range []string{"light", "dark"} {
			fmt.Fprintf(&frames, `<iframe src="page.html" width="%d" height="800"%s style="border:0;color-scheme:%s"></iframe>`,
				width, sandbox, scheme)
		}
	}
	write("page.html", page)
	write("check.html", "<!doctype html><meta charset=utf-8><body>"+frames.String()+`<pre id="result"></pre><script>const want=`+string(expected)+";\n"+string(script)+"</script>")

	asked, address := deadProxy(t)
	elements, log := browsertest.Dump(t, "file://"+filepath.Join(dir, "check.html"),
		"--proxy-server=http://"+address, "--proxy-bypass-list=<-loopback>",
		"--allow-file-access-from-files", // check.html looks into page.html
	)
	broken := consoleErrors(log, want.Scripted)
	m := regexp.MustCompile(`<pre id="result">([A-Za-z0-9+/=]+)</pre>`).FindStringSubmatch(elements)
	if m == nil {
		t.Fatalf("the check did not end:\n%s", log)
	}
	document, err := base64.StdEncoding.DecodeString(m[1])
	if err != nil {
		t.Fatal(err)
	}
	var result struct{ Broken []string }
	if err := json.Unmarshal(document, &result); err != nil {
		t.Fatal(err)
	}
	return append(append(broken, asked()...), result.Broken...)
}

// deadProxy listens until the test's end and sends no response. The function asked returns the requested hosts, except
// those that a browser requests for every page.
func deadProxy(t *testing.T) (asked func() []string, address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	own := regexp.MustCompile(`^[A-Z]+ (https?://)?[a-z0-9.-]+\.(google|googleapis|gstatic)\.com[:/]`)
	var mu sync.Mutex
	var lines []string
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			group.Go(func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(10 * time.Second)) // the browser's end comes before
				line, _ := bufio.NewReader(conn).ReadString('\n')
				if line = strings.TrimSpace(line); line == "" || own.MatchString(line) {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				lines = append(lines, "the network was wanted: "+line)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		group.Wait()
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(lines)
	}, l.Addr().String()
}

// consoleErrors returns the lines of the page's console. A page whose scripts are off has a line about that.
func consoleErrors(log string, scripted bool) []string {
	var lines []string
	for line := range strings.Lines(log) {
		if strings.Contains(line, "CONSOLE") && (scripted || !strings.Contains(line, "Blocked script execution")) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

func TestBrowserShowsThePagesWhole(t *testing.T) {
	racetest.Repeats(t)
	for name, reports := range map[string][]conformance.Report{
		"report":    {sample()},
		"matrix":    {sample(), clean(), unreachable()},
		"naive":     {naiveReport(t)},
		"two alike": {without(clean()), sample()},
	} {
		t.Run(name, func(t *testing.T) {
			for _, line := range inspect(t, render(t, reports...), lookOf(reports...)) {
				t.Error(line)
			}
		})
	}
}

func TestBrowserShowsThePagesWholeWithoutScripts(t *testing.T) {
	racetest.Repeats(t)
	reports := []conformance.Report{sample(), clean()}
	want := lookOf(reports...)
	want.Scripted = false
	for _, line := range inspect(t, render(t, reports...), want) {
		t.Error(line)
	}
}

// A check that can't fail is worse than none.
func TestBrowserCheckFindsWhatIsWrong(t *testing.T) {
	racetest.Repeats(t)
	good, want := render(t, sample()), lookOf(sample())
	open := regexp.MustCompile(`<meta http-equiv="Content-Security-Policy"[^>]*>`).ReplaceAllString(good, "")
	for name, c := range map[string]struct{ page, says string }{
		"a style that the policy refuses": {strings.Replace(good, "<main", `<main style="color:red"`, 1), "CONSOLE"},
		"a script that the policy refuses": {strings.Replace(good, "</main>", "<script>alert(1)</script></main>", 1),
			"CONSOLE"},
		"an image from elsewhere": {strings.Replace(open, "</main>", `<img src="http://evil.example/x.png"></main>`,
			1), "the network was wanted: GET http://evil.example/x.png"},
		"something wide": {strings.Replace(open, "</main>", `<p style="width:1300px">wide</p></main>`, 1),
			"light 1280: it scrolls sideways"},
		"something pale": {strings.Replace(open, "--soft: #555b66", "--soft: #aaaaaa", 1),
			"light 390: text rgb(170, 170, 170)"},
		"one scheme": {strings.Replace(open, "prefers-color-scheme: dark",
			"prefers-color-scheme: none", 1), "dark 390: dark"},
		"a finding without its diagram": {strings.Replace(good, `<figure class="diagram`, `<figure class="`, 1),
			"diagrams of findings"},
		"a case that is left out": {strings.Replace(good, `<li class="case`, `<li class="`, 1), "cases listed"},
		"a filter that does nothing": {strings.Replace(open, "item.hidden = ", "const unused = ", 1),
			"cases shown that failed"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.page == good || c.page == open {
				t.Fatal("nothing was broken")
			}
			if found := strings.Join(inspect(t, c.page, want), "\n"); !strings.Contains(found, c.says) {
				t.Errorf("found %q, want %q in it", found, c.says)
			}
		})
	}
}
