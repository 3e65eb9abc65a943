package page

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/redo-go/redo/conformance"
)

// naive is a typical first attempt at a server: a map of responses by key. It looks before it runs and stores after.
// It accepts any key and any payload, and forgets on command.
type naive struct {
	mu      sync.Mutex
	answers map[string]string
	orders  map[string]int // by account
	count   int
	forgets bool
}

func (n *naive) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if r.Method == http.MethodGet {
		fmt.Fprintf(w, `{"count":%d}`, n.orders[r.URL.Query().Get("account")])
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	key := r.Header.Get("Idempotency-Key")
	answer, ok := n.answers[key]
	if !ok || key == "" || n.forgets {
		_, account, _ := strings.Cut(string(body), `"account":"`)
		account, _, _ = strings.Cut(account, `"`)
		n.orders[account]++
		n.count++
		answer = fmt.Sprintf(`{"id":"order_%d"}`, n.count)
		n.answers[key] = answer
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, answer)
}

// naiveReport runs the cases that need no waiting. The server forgets its records after the run saw it replay.
func naiveReport(t *testing.T) conformance.Report {
	t.Helper()
	n := &naive{answers: map[string]string{}, orders: map[string]int{}}
	srv := httptest.NewServer(n)
	defer srv.Close()
	required := true
	left := map[string]bool{"replay-effect": true, "replay-status": true, "replay-body": true}
	report, err := conformance.Run(t.Context(), conformance.Target{
		Name: "naive", BaseURL: srv.URL,
		Operation: conformance.Operation{Method: "POST", Path: "/orders",
			Body: `{"account":"{{case}}","item":"{{payload}}"}`},
		Key:     conformance.Key{Required: &required, Strict: true},
		Effects: &conformance.Effects{URL: "/orders?account={{case}}", Path: "count"},
	}, conformance.Seed(1138), conformance.Concurrency(1), conformance.Only("ctl", "key", "replay", "mismatch",
		"fault-lost-response"),
		conformance.Progress(func(res conformance.Result) {
			delete(left, res.Slug)
			n.mu.Lock()
			defer n.mu.Unlock()
			n.forgets = len(left) == 0
		}))
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestPageOfARealRunShowsItsFailures(t *testing.T) {
	report := naiveReport(t)
	res, ok := report.Result("fault-lost-response")
	if !ok || res.Verdict != conformance.Fail {
		t.Fatalf("fault-lost-response came to %s: %s", res.Verdict, res.Reason)
	}
	d := newResult("case-", res).Diagram
	var spans []string
	for _, r := range d.Rows {
		spans = append(spans, r.Kind+" "+r.Span)
	}
	// The cases' own words say which exchange went through the proxy; this is where a change of them is found out.
	want := "[send near send far response far broken near send full response full]"
	if got := fmt.Sprint(spans); got != want || !d.Proxied {
		t.Errorf("the diagram of a lost answer is %s, want %s", got, want)
	}
	page := render(t, report)
	for _, r := range report.Results {
		if r.Verdict == conformance.Fail &&
			!strings.Contains(page, `<article class="case finding v-fail" id="case-`+r.Slug+`"`) {
			t.Errorf("%s failed and is not among the findings", r.Slug)
		}
	}
	for _, text := range []string{"Does not conform", "Exit code 1.", res.Rerun + "</pre>", "&#43;2</b> counted"} {
		if !strings.Contains(page, text) {
			t.Errorf("the page does not say %q", text)
		}
	}
}
