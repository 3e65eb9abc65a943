package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/conformance"
	"github.com/redo-go/redo/store/boltstore"
	"github.com/redo-go/redo/store/pgstore/pgtest"
)

func TestMain(m *testing.M) {
	testscript.Main(suite{m}, map[string]func(){"redo": main, "refund": refund})
}

// A suite runs the tests beside a server of Postgres, which starts when a test needs it.
type suite struct{ *testing.M }

func (s suite) Run() int { return pgtest.Main(s.M) }

// Each script in testdata/script is a rule of a command, which its first line states.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", "atexit_sleep_ms=0") // or each command takes a second to end under the race detector
			env.Setenv("NOWHERE", nowhere(t))
			env.Setenv("CASES", fmt.Sprint(len(conformance.Cases())))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":   exits,
			"awaited": awaited,
			"request": sendRequest,
			"serving": serving,
			"pending": leavePending,
			"resting": leaveResting,
			"damage":  damageFile,
			"queue":   leaveEvents,
			"env-is":  envIs,
			"junit":   junit,
		},
	})
}

// nowhere is a URL that refuses connections.
func nowhere(t *testing.T) string {
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	return srv.URL
}

// exits runs redo and wants exactly this exit status: exits 2 check --bogus
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: exits STATUS ARG...")
	}
	err := ts.Exec("redo", args[1:]...)
	status := 0
	var exited *exec.ExitError
	switch {
	case errors.As(err, &exited):
		status = exited.ExitCode()
	case err != nil:
		ts.Fatalf("redo %v: %v", args[1:], err)
	}
	if fmt.Sprint(status) != args[0] {
		ts.Fatalf("redo %v: exit status %d, want %s", args[1:], status, args[0])
	}
}

// awaited waits until a file is there, and sets a variable to its content: awaited url.txt URL
func awaited(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: awaited FILE VARIABLE")
	}
	deadline := time.Now().Add(time.Minute)
	for {
		data, err := os.ReadFile(ts.MkAbs(args[0]))
		if err == nil && len(data) > 0 {
			ts.Setenv(args[1], strings.TrimSpace(string(data)))
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s does not come: %v", args[0], err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// sendRequest sends a request with a key and wants this status, or "error" for no response: request 201 POST
// $URL/orders k1
func sendRequest(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: request STATUS METHOD URL KEY")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, args[1], args[2], strings.NewReader(`{"amount":1}`))
	ts.Check(err)
	if args[3] != "-" {
		req.Header.Set("Idempotency-Key", args[3])
	}
	// No connection is used twice, because net/http may repeat a request on a used one.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	got := "error"
	if err == nil {
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		got = fmt.Sprint(resp.StatusCode)
		ts.Setenv("ANSWER", strings.TrimSpace(string(body)))
	}
	if got != args[0] {
		ts.Fatalf("%s %s: %s, want %s (%v)", args[1], args[2], got, args[0], err)
	}
}

// envIs compares a variable: env-is NAME 'text'
func envIs(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: env-is VARIABLE TEXT")
	}
	if got := ts.Getenv(args[0]); got != args[1] {
		ts.Fatalf("%s is %q, want %q", args[0], got, args[1])
	}
}

// serving starts a server with one defect until the script's end, and sets a variable to its URL: serving hanging URL
func serving(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: serving KIND VARIABLE")
	}
	var count int
	kinds := map[string]http.HandlerFunc{
		"missing":   http.NotFound,
		"mail":      func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"count":"many"}`) },
		"restless":  func(w http.ResponseWriter, _ *http.Request) { count++; fmt.Fprintf(w, `{"count":%d}`, count) },
		"declining": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) },
		// It sends a 1xx, and then nothing.
		"hanging": func(_ http.ResponseWriter, r *http.Request) {
			_ = os.WriteFile(ts.MkAbs("asked"), []byte("yes"), 0o600)
			<-r.Context().Done()
		},
	}
	h, ok := kinds[args[0]]
	if !ok {
		ts.Fatalf("there is no server of the kind %q", args[0])
	}
	srv := httptest.NewServer(h)
	ts.Defer(srv.Close)
	ts.Setenv(args[1], srv.URL)
}

// leavePending makes a client's file with one operation without a final response: pending payments.redo refund:1
// $URL/refunds?a=b
func leavePending(ts *testscript.TestScript, neg bool, args []string) {
	leave(ts, neg, args, unplugged{})
}

// leaveResting leaves an operation whose final response leaves its effect unknown: resting payments.redo refund:1 $URL
func leaveResting(ts *testscript.TestScript, neg bool, args []string) {
	leave(ts, neg, args, undecided{})
}

func leave(ts *testscript.TestScript, neg bool, args []string, rt http.RoundTripper) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: pending|resting FILE NAME URL")
	}
	st, err := boltstore.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	client, err := redo.New(redo.WithStore(st), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}),
		redo.WithTransport(rt))
	ts.Check(err)
	ctx := redo.WithOperation(context.Background(), args[1])
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, args[2], strings.NewReader(`{"amount":1000}`))
	ts.Check(err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer of-the-crashed")
	if _, err := client.Do(req); err == nil {
		ts.Fatalf("the operation was answered")
	}
	ts.Check(client.Close())
	ts.Check(st.Close())
}

// damageFile damages the records of a client's file that hold a text: damage payments.redo /refunds/2
func damageFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: damage FILE TEXT")
	}
	ts.Check(damageText(ts.MkAbs(args[0]), args[1]))
}

// damageText changes a byte of each place where a file holds a text.
func damageText(name, text string) error {
	content, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if !bytes.Contains(content, []byte(text)) {
		return fmt.Errorf("%s does not hold %q", name, text)
	}
	changed := []byte(text)
	changed[len(changed)-1] ^= 1
	return os.WriteFile(name, bytes.ReplaceAll(content, []byte(text), changed), 0o600)
}

// unplugged loses every request.
type unplugged struct{}

func (unplugged) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, io.ErrUnexpectedEOF
}

// undecided repeats an error that leaves the effect unknown.
type undecided struct{}

func (undecided) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusInternalServerError, Header: http.Header{"Idempotent-Replayed": {"true"}},
		Body: http.NoBody, Request: r,
	}, nil
}

// junit checks a file's structure: that its counts are those of its elements, that no case has two outcomes, and that
// each failure has a message. junit FILE FAILURES ERRORS
func junit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: junit FILE FAILURES ERRORS")
	}
	type problem struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
	var doc struct {
		XMLName xml.Name `xml:"testsuites"`
		Suites  []struct {
			Name     string  `xml:"name,attr"`
			Tests    int     `xml:"tests,attr"`
			Failures int     `xml:"failures,attr"`
			Errors   int     `xml:"errors,attr"`
			Skipped  int     `xml:"skipped,attr"`
			Time     float64 `xml:"time,attr"`
			Cases    []struct {
				Class   string    `xml:"classname,attr"`
				Name    string    `xml:"name,attr"`
				Time    string    `xml:"time,attr"`
				Failure []problem `xml:"failure"`
				Error   []problem `xml:"error"`
				Skipped []problem `xml:"skipped"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	ts.Check(xml.Unmarshal([]byte(ts.ReadFile(args[0])), &doc))
	failures, errs := 0, 0
	for _, s := range doc.Suites {
		var f, e, sk int
		seen := map[string]bool{}
		for _, c := range s.Cases {
			f, e, sk = f+len(c.Failure), e+len(c.Error), sk+len(c.Skipped)
			if len(c.Failure)+len(c.Error)+len(c.Skipped) > 1 {
				ts.Fatalf("%s has two outcomes", c.Name)
			}
			for _, p := range append(append(c.Failure, c.Error...), c.Skipped...) {
				if p.Message == "" {
					ts.Fatalf("%s has no message", c.Name)
				}
			}
			for _, p := range c.Failure {
				if !strings.Contains(p.Text, "source") {
					ts.Fatalf("the failure of %s has no evidence: %q", c.Name, p.Text)
				}
			}
			if _, err := strconv.ParseFloat(c.Time, 64); err != nil || c.Class == "" || c.Name == "" || seen[c.Name] {
				ts.Fatalf("%q is no test case: %+v", c.Name, c)
			}
			seen[c.Name] = true
		}
		if s.Name == "" || s.Tests != len(s.Cases) || s.Failures != f || s.Errors != e || s.Skipped != sk {
			ts.Fatalf("the counts are not those of the elements: %+v", s)
		}
		failures, errs = failures+f, errs+e
	}
	if fmt.Sprint(failures) != args[1] || fmt.Sprint(errs) != args[2] {
		ts.Fatalf("%d failures and %d errors, want %s and %s", failures, errs, args[1], args[2])
	}
}
