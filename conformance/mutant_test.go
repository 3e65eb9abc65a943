package conformance

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/racetest"
	"github.com/redo-go/redo/taxonomy"
)

// A mutant is the reference server with one defect. The cases in finds fail or warn, those in also may, and no
// others. A "*" means all: more than one effect for one key is a failure in every case that sees it.
type mutant struct {
	name   string
	finds  []string
	also   []string
	must   bool // it fails a run that is not strict too
	defect func(l *lab)
}

// broken returns the slugs of the results that say that a rule was broken.
func broken(r Report) []string {
	var slugs []string
	for _, res := range r.Results {
		if res.Verdict.broken() {
			slugs = append(slugs, res.Slug)
		}
	}
	return slugs
}

func TestEachMutantFailsItsCasesAndNoOthers(t *testing.T) {
	racetest.Repeats(t) // TestReferencePassesInEveryStoreModeAndProfile runs each case
	t.Parallel()        // runs spend their time waiting
	all := mutants()
	targets := make([]Target, len(all))
	for i, m := range all {
		l := newLab(t)
		m.defect(l)
		targets[i] = l.start().target()
	}
	reports := runAll(t, targets, Seed(1))
	for i, m := range all {
		t.Run(m.name, func(t *testing.T) {
			report := reports[i]
			if !reveals(report, m) { // the runs share the machine, and one that is busy can hide a defect
				t.Logf("nothing was found at first:\n%s", texts(report))
				l := newLab(t)
				m.defect(l)
				report = runAll(t, []Target{l.start().target()}, Seed(1))[0]
			}
			found := broken(report)
			require.Subset(t, found, m.finds, "%s", texts(report))
			if !slices.Contains(m.also, "*") {
				require.Subset(t, slices.Concat(m.finds, m.also), found, "%s", trouble(report))
			}
			require.NotZero(t, report.ExitCode(true))
			if m.must {
				require.NotZero(t, report.ExitCode(false), "%s", trouble(report))
			}
			require.Zero(t, report.Count()[Harness], "%s", texts(report))
		})
	}
}

// reveals reports whether the report breaks each rule that finds the mutant.
func reveals(r Report, m mutant) bool {
	found := broken(r)
	return !slices.ContainsFunc(m.finds, func(slug string) bool { return !slices.Contains(found, slug) })
}

// runAll runs the cases on many targets at a time: they spend their time waiting.
func runAll(t *testing.T, targets []Target, opts ...Option) []Report {
	t.Helper()
	reports, errs := make([]Report, len(targets)), make([]error, len(targets))
	places := make(chan struct{}, 12)
	var group sync.WaitGroup
	for i, target := range targets {
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			reports[i], errs[i] = Run(t.Context(), target, opts...)
		})
	}
	group.Wait()
	for i, err := range errs {
		require.NoError(t, err, "%s", texts(reports[i]))
	}
	return reports
}

// Without this a case could be added that nothing ever fails.
func TestEachCaseThatJudgesHasAMutant(t *testing.T) {
	found := map[string]bool{}
	for _, m := range mutants() {
		for _, slug := range m.finds {
			found[slug] = true
		}
	}
	for _, c := range Cases() {
		if c.Level != Inform && c.Slug != slugOracle { // the oracle never fails, and has its own test
			require.True(t, found[c.Slug], "no mutant fails %s", c.Slug)
		}
		delete(found, c.Slug)
	}
	require.Empty(t, found, "mutants are said to be found by cases that don't exist")
}

// rewriting returns a front that changes responses before they are sent.
func rewriting(change func(r *http.Request, a *httptest.ResponseRecorder)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rec := newRecorder(w)
			next.ServeHTTP(rec, r)
			change(r, rec.ResponseRecorder)
			copyHeader(w.Header(), rec.Header())
			w.Header().Del("Content-Length")
			w.WriteHeader(rec.Code)
			_, _ = w.Write(rec.Body.Bytes())
		})
	}
}

// rerouting returns a front that changes requests. A request that it serves itself goes no further.
func rerouting(change func(w http.ResponseWriter, r *http.Request, key string,
	body []byte) (answered bool)) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			if !change(w, r, r.Header.Get("Idempotency-Key"), body) {
				next.ServeHTTP(w, r)
			}
		})
	}
}

func isReplay(a *httptest.ResponseRecorder) bool {
	return a.Header().Get("Idempotent-Replayed") == "true"
}

func isMismatch(a *httptest.ResponseRecorder) bool {
	return a.Header().Get("Error-Code") == string(taxonomy.PayloadMismatch)
}

func isInFlight(a *httptest.ResponseRecorder) bool {
	return a.Header().Get("Error-Code") == string(taxonomy.InFlight)
}

// body replaces a response's body.
func setBody(a *httptest.ResponseRecorder, s string) {
	a.Body.Reset()
	a.Body.WriteString(s)
}

// refuse refuses a request as the middleware does.
func refuse(w http.ResponseWriter, status int, code taxonomy.Code) bool {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Error-Code", string(code))
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"title":"no","code":"`+string(code)+`"}`)
	return true
}

// memory holds a mutant's data about keys.
type memory struct {
	mu   sync.Mutex
	seen map[string]string
	n    map[string]int
}

func newMemory() *memory { return &memory{seen: map[string]string{}, n: map[string]int{}} }

// first returns the stored value of the key. Without one it stores the given value.
func (m *memory) first(key, value string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.seen[key]; !ok {
		m.seen[key] = value
	}
	return m.seen[key]
}

func (m *memory) get(key string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen[key]
}

func (m *memory) put(key, value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen[key] = value
}

func (m *memory) add(key string, n int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.n[key] += n
	return m.n[key]
}

// texts is the report for a failure message.
func texts(r Report) string {
	var b bytes.Buffer
	_ = r.WriteText(&b)
	return b.String()
}

// closed reports whether the client has gone.
func closed(ctx context.Context) bool { return ctx.Err() != nil }
