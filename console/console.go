package console

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"time"

	"github.com/redo-go/redo/internal/bidi"
)

// A Console serves the pages. Create one with [New].
type Console struct {
	config
	handler http.Handler
}

// New returns a console. It needs [Operations], [Events] or [Letters]. The error names every wrong option.
func New(opts ...Option) (*Console, error) {
	cfg, err := configure(opts)
	if err != nil {
		return nil, err
	}
	c := &Console{config: cfg}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", c.overview)
	mux.HandleFunc("GET /style.css", style)
	mux.HandleFunc("GET /find", c.find)
	if c.client != nil {
		mux.HandleFunc("GET /operations", c.operations)
		mux.HandleFunc("GET /operation", c.operation)
		mux.HandleFunc("POST /resume", c.resume)
		mux.HandleFunc("POST /settle", c.settle)
		mux.HandleFunc("GET /forget", c.confirmForget)
		mux.HandleFunc("POST /forget", c.forget)
	}
	if len(c.queues) > 0 {
		mux.HandleFunc("GET /events", c.events)
		mux.HandleFunc("GET /event", c.event)
		mux.HandleFunc("POST /redrive", c.redrive)
		mux.HandleFunc("GET /selection", c.preview)
		mux.HandleFunc("POST /selection", c.redriveSelection)
		mux.HandleFunc("POST /enable", c.enable)
	}
	if c.inbox != nil {
		mux.HandleFunc("GET /letters", c.letters)
	}
	c.handler = c.guard(http.NewCrossOriginProtection().Handler(mux))
	return c, nil
}

// ServeHTTP serves a page or carries out an act. Strip the prefix of its path first, see the package's comment.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }

//go:embed templates
var files embed.FS

var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"ago": ago, "instant": instant, "iso": iso, "took": took,
}).ParseFS(files, "templates/*.gohtml"))

func style(w http.ResponseWriter, r *http.Request) {
	http.ServeFileFS(w, r, files, "templates/style.css")
}

// A frame holds the parts that every page has.
type frame struct {
	Title      string
	Author     string
	Operations bool // there are operations
	Letters    bool
	Queues     []string
	Here       string // the page of the navigation that is shown
	Notice     string // the report of an act
	Query      string // of the search
	Page       any
}

// show renders a page.
func (c *Console) show(w http.ResponseWriter, r *http.Request, status int, name, title, here string, page any) {
	f := frame{
		Title: title, Author: author(r), Operations: c.client != nil, Letters: c.inbox != nil, Here: here, Page: page,
		Notice: notices[r.FormValue("done")], Query: r.FormValue("q"),
	}
	for _, q := range c.queues {
		f.Queues = append(f.Queues, q.name)
	}
	var b bytes.Buffer
	if err := pages.ExecuteTemplate(&b, name, f); err != nil {
		http.Error(w, "console: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(bidi.EscapeHTML(b.Bytes())) // the browser has gone
}

// notices are the results that a redirect may announce.
var notices = map[string]string{
	"resume":  "The operation was sent again, and it succeeded.",
	"settle":  "Your finding is recorded.",
	"forget":  "The operation is forgotten. Its next call is a new operation.",
	"redrive": "The letter waits for delivery again.",
	"enable":  "The destination is enabled. Its waiting events are due.",
}

// A failure is the page of an error.
type failure struct{ Text, Code, Hint, Back string }

// fail shows an error. back is the page to go on from.
func (c *Console) fail(w http.ResponseWriter, r *http.Request, status int, f failure) {
	if f.Back == "" {
		f.Back = "./"
	}
	c.show(w, r, status, "failure", http.StatusText(status), "", f)
}

// redirect sends the browser to a page of the console after an act. A relative Location works below any prefix.
func redirect(w http.ResponseWriter, page string) {
	w.Header().Set("Location", page)
	w.WriteHeader(http.StatusSeeOther)
}

// instant returns a time for a person, in UTC.
func instant(t time.Time) string {
	if t.IsZero() {
		return "unknown"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

func iso(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// ago returns a duration with its two largest units.
func ago(d time.Duration) string {
	switch d = max(0, d); {
	case d < time.Minute:
		return d.Truncate(time.Second).String()
	case d < time.Hour:
		return unit(d, time.Minute, "m", time.Second, "s")
	case d < 24*time.Hour:
		return unit(d, time.Hour, "h", time.Minute, "m")
	}
	return unit(d, 24*time.Hour, "d", time.Hour, "h")
}

// took returns the duration of an attempt.
func took(d time.Duration) string { return d.Round(time.Millisecond).String() }
