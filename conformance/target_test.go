package conformance

import (
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/racetest"
	"github.com/redo-go/redo/server"
)

// whole is a description with everything in it.
const whole = `{
  "name": "shop", "base_url": "https://shop.example/v1", "profile": "ietf",
  "operation": {"method": "POST", "path": "/orders", "headers": {"Content-Type": "application/json"},
    "body": {"account": "{{case}}", "item": "{{payload}}", "amount": "{{number}}"}},
  "key": {"required": true, "max_length": 64, "strict": true, "quoted": true},
  "principals": [{"name": "alice", "headers": {"Authorization": "Bearer a"}},
    {"headers": {"Authorization": "Bearer b"}}],
  "effects": {"url": "/effects?account={{case}}", "path": "data.0.count", "settle": "10ms"},
  "second_operation": {"path": "/refunds"}, "patch": {"method": "PATCH"}, "empty": {"path": "/empty"},
  "large": {"path": "/large"}, "invalid": {"body": "not json"}, "interim": {"path": "/interim"},
  "get": {"method": "GET", "path": "/orders"}, "query": {"method": "QUERY", "path": "/orders", "body": "q"},
  "origin": "https://page.example", "advertised": {"method": "GET", "path": "/config", "member": "lifetime"},
  "slow": {"headers": {"X-Slow": "1"}, "takes": "300ms"},
  "fault": {"headers": {"X-Fail": "1"}, "replayed": true}, "rate_limited": {"headers": {"X-Limit": "1"}},
  "crash": {"headers": {"X-Crash": "1"}, "lease": "30s"}, "expiring": {"path": "/short", "retention": "2s"},
  "restart": {"command": ["systemctl", "restart", "shop"], "within": "1m"},
  "retention": "24h", "secret_headers": ["X-Partner"], "timeout": "5s"
}`

func TestTargetIsReadAsItIsWritten(t *testing.T) {
	target, err := ReadTarget(strings.NewReader(whole))
	require.NoError(t, err)
	require.Equal(t, Body(`{"account":"{{case}}","item":"{{payload}}","amount":"{{number}}"}`), target.Operation.Body)
	require.Equal(t, Body("not json"), target.Invalid.Body)
	require.Equal(t, 300*time.Millisecond, time.Duration(target.Slow.Takes))
	require.True(t, *target.Fault.Replayed)
	p, err := target.profile()
	require.NoError(t, err)
	for _, c := range Cases() {
		for _, n := range c.Needs {
			switch n {
			case NeedKeyOptional, NeedCodes, NeedBothForms, NeedQuery, NeedFirst:
				require.False(t, target.declares(n, p), n)
			default:
				require.True(t, target.declares(n, p), n)
			}
		}
	}
	document, err := json.Marshal(target)
	require.NoError(t, err)
	again, err := ReadTarget(strings.NewReader(string(document)))
	require.NoError(t, err)
	require.Equal(t, target, again)
}

func TestDescriptionThatIsWrongIsRefused(t *testing.T) {
	const operation = `"operation":{"method":"POST","path":"/x"}`
	for name, c := range map[string]struct{ document, want string }{
		"no JSON":             {`base_url: http://h`, "the target is malformed"},
		"nothing":             {``, "the target is malformed"},
		"two documents":       {`{"base_url":"http://h",` + operation + `} {}`, "something follows"},
		"a member of no name": {`{"base_url":"http://h","efects":{}}`, `unknown field "efects"`},
		"an operation that asks": {`{"base_url":"http://h","operation":{"method":"QUERY","path":"/x"}}`,
			"QUERY makes no effect"},
		"no operation":          {`{"base_url":"http://h"}`, `operation.method: "" is no HTTP method`},
		"no host":               {`{"base_url":"http://",` + operation + `}`, "base_url: must be"},
		"a duration in figures": {`{"base_url":"http://h",` + operation + `,"timeout":5}`, "the target is malformed"},
		"a duration in words": {`{"base_url":"http://h",` + operation + `,"timeout":"soon"}`,
			`"soon" is no duration`},
		"a path with spaces": {`{"base_url":"http://h","operation":{"method":"POST","path":"/a b"}}`,
			`operation.path: "/a b" must start`},
		"no way to count": {`{"base_url":"http://h",` + operation + `,"effects":{}}`,
			"one of url, command and response_id"},
		"a path to nowhere": {`{"base_url":"http://h",` + operation + `,"effects":{"command":["x"],"path":"n"}}`,
			"a path without a url"},
		"a count of a payload": {`{"base_url":"http://h",` + operation + `,"effects":{"url":"/n?of={{payload}}"}}`,
			"effects.url: there is no variable {{payload}} in this template, there are case, run"},
		"a program for a payload": {`{"base_url":"http://h",` + operation + `,"effects":{"command":["x","{{uuid}}"]}}`,
			"effects.command.1: there is no variable {{uuid}} in this template, there are case, run"},
		"a slow one that is not": {`{"base_url":"http://h",` + operation + `,"slow":{"takes":"1ms"}}`,
			"slow.takes: 1ms must be 50ms or more"},
		"a variant that is wrong": {`{"base_url":"http://h",` + operation + `,"empty":{"path":"empty"}}`,
			`empty.path: "empty" must start`},
		"a retention too long": {`{"base_url":"http://h",` + operation + `,"expiring":{"retention":"24h"}}`,
			"too long to wait for"},
		"a restart of nothing": {`{"base_url":"http://h",` + operation + `,"restart":{}}`, "there must be one command"},
		"a key of its own": {`{"base_url":"http://h","operation":{"method":"POST","path":"/x",` +
			`"headers":{"idempotency-key":"1"}}}`, "the header Idempotency-Key is the harness's own"},
		"a key too short": {`{"base_url":"http://h",` + operation + `,"key":{"max_length":8}}`,
			"key.max_length: 8 is less than 36"},
		"a query by GET": {`{"base_url":"http://h",` + operation + `,"query":{"method":"GET","path":"/x"}}`,
			`query.method: "GET" must be QUERY`},
		"a page for an origin": {`{"base_url":"http://h",` + operation + `,"origin":"https://h/x"}`,
			"is no origin such as"},
		"an origin without a scheme": {`{"base_url":"http://h",` + operation + `,"origin":"shop.example"}`,
			"is no origin such as"},
		"a retention in two places": {`{"base_url":"http://h",` + operation +
			`,"advertised":{"method":"GET","path":"/c","header":"A","member":"b"}}`, "one of header and member"},
		"a retention nowhere": {`{"base_url":"http://h",` + operation + `,"advertised":{"method":"GET","path":"/c"}}`,
			"one of header and member"},
		"a retention in no header": {`{"base_url":"http://h",` + operation +
			`,"advertised":{"method":"GET","path":"/c","header":"a b"}}`, "is no header name"},
		"a profile of nothing": {`{"base_url":"http://h",` + operation + `,"custom_profile":{"name":"x"}}`,
			"custom_profile.mismatch: there is no status"},
		"a profile of successes": {`{"base_url":"http://h",` + operation +
			`,"custom_profile":{"mismatch":[200],"missing_key":[400],"malformed_key":[400],"in_flight":[409]}}`,
			"custom_profile.mismatch: 200 is no status of a client error"},
		"a huge one": {strings.Repeat(" ", maxTarget+1), "more than 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadTarget(strings.NewReader(c.document))
			require.ErrorIs(t, err, ErrConfig)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestVariantTakesWhatItLeavesOutFromTheOperation(t *testing.T) {
	base := Operation{Method: "POST", Path: "/a", Headers: map[string]string{"X-One": "1", "X-Two": "2"}, Body: "b"}
	require.Equal(t, Operation{
		Method: "POST", Path: "/b", Headers: map[string]string{"X-One": "1", "x-two": "3"}, Body: "b",
	}, Operation{Path: "/b", Headers: map[string]string{"x-two": "3"}}.over(base))
	get := Operation{Method: "GET"}.over(base)
	require.Empty(t, get.Body)
	require.Empty(t, Operation{Method: "QUERY"}.over(base).Body)
	require.Equal(t, Body("q"), Operation{Method: "QUERY", Body: "q"}.over(base).Body)
	require.Equal(t, map[string]string{"X-One": "1", "X-Two": "2"}, base.Headers)
}

func TestCustomProfileSaysWhatIsRight(t *testing.T) {
	teapot := &Profile{Mismatch: []int{418}, MissingKey: []int{400}, MalformedKey: []int{400}, InFlight: []int{409}}
	l := newLab(t)
	l.front = rewriting(func(_ *http.Request, a *httptest.ResponseRecorder) {
		if isMismatch(a) {
			a.Code = http.StatusTeapot
		}
	})
	target := l.start().target()
	target.CustomProfile = teapot
	report, err := Run(t.Context(), target, Only(slugMismatch))
	require.NoError(t, err)
	require.Empty(t, broken(report))
	require.Equal(t, "custom", report.Profile)
	target.CustomProfile = nil
	report, err = Run(t.Context(), target, Only(slugMismatch))
	require.NoError(t, err)
	require.Equal(t, []string{slugMismatch}, broken(report))
}

// A server may want keys quoted, and under another name.
func TestKeysAreSentAsTheTargetWantsThem(t *testing.T) {
	l := newLab(t)
	l.options = append(l.options, server.IETFStatuses())
	l.front = rerouting(func(w http.ResponseWriter, r *http.Request, _ string, _ []byte) bool {
		keys := r.Header["X-Request-Key"]
		delete(r.Header, "X-Request-Key")
		r.Header["Idempotency-Key"] = keys
		for _, key := range keys {
			if !strings.HasPrefix(key, `"`) {
				return refuse(w, http.StatusBadRequest, "VALIDATION.idempotency_key.malformed")
			}
		}
		if len(keys) == 0 {
			delete(r.Header, "Idempotency-Key")
		}
		return false
	})
	target := l.start().target()
	target.Profile = "ietf"
	target.Key.Quoted, target.Key.Header = true, "X-Request-Key"
	report, err := Run(t.Context(), target, Only("key", "replay-effect", "mismatch"))
	require.NoError(t, err)
	require.Empty(t, broken(report), texts(report))
	require.Zero(t, report.ExitCode(true), texts(report))
	res, _ := report.Result("key-sf-quoted")
	require.Contains(t, res.Findings[0].Actual, "refused: 400")
}

func TestTemplates(t *testing.T) {
	values := map[string]string{varPayload: "P", varNumber: "7", varCase: "C", varRun: "R"}
	for text, want := range map[string]string{
		"":                                     "",
		"plain":                                "plain",
		"{{payload}}{{ number }}":              "P7",
		`{"a":{"b":"{{case}}"},"r":"{{run}}"}`: `{"a":{"b":"C"},"r":"R"}`,
		"{ {payload}}":                         "{ {payload}}",
	} {
		got, err := parseTemplate(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got.render(values))
	}
}

func TestNumbersAreFoundByTheirPath(t *testing.T) {
	for _, c := range []struct {
		doc, path string
		want      int
		err       string
	}{
		{"7", "", 7, ""},
		{`{"a":{"b":[0,{"n":5}]}}`, "a.b.1.n", 5, ""},
		{`{"list":[1,2,3]}`, "list", 3, ""},
		{`[]`, "", 0, ""},
		{`{"a":1}`, "b", 0, `there is no member "b"`},
		{`[1]`, "1", 0, `a list of 1 has no element "1"`},
		{`[1]`, "-1", 0, `has no element "-1"`},
		{`{"a":1}`, "a.b", 0, "neither an object nor a list"},
		{`1e3`, "", 0, "1e3 is no whole number"},
		{`true`, "", 0, "neither a whole number nor a list"},
		{`<html>`, "", 0, "it is no JSON"},
	} {
		n, err := numberAt([]byte(c.doc), c.path)
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, n)
	}
}

// TestMain lets the test binary be the command that counts and the one that restarts.
func TestMain(m *testing.M) {
	switch os.Getenv("REDO_CONFORMANCE_COMMAND") {
	case "count":
		// It prints the size of a file, of which each effect is a byte.
		info, err := os.Stat(os.Args[1])
		if err != nil {
			_, _ = os.Stdout.WriteString("0\n")
			os.Exit(0)
		}
		_, _ = os.Stdout.WriteString(strconv.FormatInt(info.Size(), 10) + "\n")
		os.Exit(0)
	case "words":
		_, _ = os.Stdout.WriteString("several\n")
		os.Exit(0)
	case "fail":
		os.Exit(3)
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // runs spend their time waiting
		panic(err)
	}
	os.Exit(m.Run())
}

func TestCommandCountsEffects(t *testing.T) {
	racetest.Repeats(t) // starts this program forty times, which takes the detector a second each
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	l := newLab(t)
	l.inner = func(next http.Handler) http.Handler {
		return rerouting(func(_ http.ResponseWriter, _ *http.Request, _ string, body []byte) bool {
			f, err := os.OpenFile(dir+"/"+accountOf(body), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err == nil {
				_, _ = f.WriteString("x")
				_ = f.Close()
			}
			return false
		})(next)
	}
	target := l.start().target()
	target.Effects = &Effects{Command: []string{self, dir + "/{{case}}"}}
	only := Only("replay-effect", "conc-one-effect")

	t.Setenv("REDO_CONFORMANCE_COMMAND", "count")
	report, err := Run(t.Context(), target, only)
	require.NoError(t, err)
	require.Empty(t, broken(report), texts(report))
	res, _ := report.Result(slugEffect)
	require.Equal(t, 1, *res.Effects)

	t.Setenv("REDO_CONFORMANCE_COMMAND", "words")
	_, err = Run(t.Context(), target, only)
	require.ErrorIs(t, err, ErrConfig)
	require.ErrorContains(t, err, `the command printed "several\n", which is no whole number`)

	t.Setenv("REDO_CONFORMANCE_COMMAND", "fail")
	_, err = Run(t.Context(), target, only)
	require.ErrorIs(t, err, ErrConfig)
	require.ErrorContains(t, err, "exit status 3")
}

func TestRestartThatFailsSaysNothingOfTheTarget(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	t.Setenv("REDO_CONFORMANCE_COMMAND", "fail")
	target := newLab(t).start().target()
	target.Restart = &Restart{Command: []string{self}}
	report, err := Run(t.Context(), target, Only("restart-durable"))
	require.NoError(t, err)
	res, _ := report.Result("restart-durable")
	require.Equal(t, Harness, res.Verdict)
	require.Equal(t, "the target could not be restarted: the restart command: exit status 3", res.Reason)
	require.Equal(t, ExitFault, report.ExitCode(false))
}

func FuzzReadTarget(f *testing.F) {
	f.Add(whole)
	f.Add(`{"base_url":"http://h","operation":{"method":"POST","path":"/{{case}}"}}`)
	f.Fuzz(func(t *testing.T, document string) {
		target, err := ReadTarget(strings.NewReader(document))
		if err != nil {
			require.ErrorIs(t, err, ErrConfig)
			return
		}
		p, err := target.profile()
		require.NoError(t, err)
		for _, c := range Cases() {
			for _, n := range c.Needs {
				target.declares(n, p)
			}
		}
		newMask(target)
	})
}

func FuzzValueAt(f *testing.F) {
	f.Add([]byte(`{"a":[{"n":1}]}`), "a.0.n")
	f.Fuzz(func(t *testing.T, doc []byte, path string) {
		_, _ = numberAt(doc, path)
		if again := reorder(doc); again != nil && !json.Valid(again) {
			t.Fatalf("reorder made no JSON: %q", again)
		}
	})
}
