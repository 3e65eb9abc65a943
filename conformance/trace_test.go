package conformance

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/store/memstore"
)

// A secret must be nowhere in a report: not in a header, nor in an echo of the server.
func TestReportHoldsNoSecret(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Set-Cookie", "session=set-by-server")
		w.Header().Set("X-Echo", r.Header.Get("X-Tenant")+" "+r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, r.URL.String()+" "+r.URL.Query().Get("sig")+" ")
		_, _ = io.WriteString(w, r.Header.Get("X-Partner-Key")+" "+r.Header.Get("Authorization")+" "+string(body))
	}))
	t.Cleanup(srv.Close)
	target := Target{
		BaseURL: srv.URL,
		Operation: Operation{
			Method: "POST", Path: "/x?token=hidden-partner&sig=hidden%2Fsig&api%5Fkey=pin&page=shown",
			Body: `{"p":"{{payload}}","key":"hidden-partner"}`,
			Headers: map[string]string{"X-Partner-Key": "hidden-partner", "X-Pin": "zzz", "Cookie": "hidden-cookie",
				"Ocp-Apim-Subscription-Key": "hidden-subscription", "dpop": "hidden-proof", "X-Plain": "plain"},
		},
		Principals: []Principal{{Headers: map[string]string{"Authorization": "Bearer hidden-bearer",
			"X-Tenant": "hidden-tenant"}}},
		Effects:       &Effects{URL: srv.URL + "/count", Headers: map[string]string{"X-Count": "hidden-counter"}},
		SecretHeaders: []string{"x-partner-key", "X-Pin"},
	}
	target.Effects = nil
	report, err := Run(t.Context(), target)
	require.NoError(t, err)
	res, _ := report.Result(slugBaseline)
	require.Equal(t, Fail, res.Verdict)
	document, err := json.Marshal(report)
	require.NoError(t, err)
	for _, text := range []string{string(document), texts(report)} {
		require.NotContains(t, text, "hidden-")
		require.NotContains(t, text, "zzz") // too short to be looked for elsewhere, but not in its own header
		require.NotContains(t, text, "set-by-server")
		require.Contains(t, text, "***")
		require.Contains(t, text, "X-Plain: plain")
	}
	const path = "/x?token=***&sig=***&api%5Fkey=***&page=shown"
	require.Equal(t, path, res.Exchanges[0].Path)
	require.Empty(t, res.Exchanges[0].Curl, "a secret of three bytes is found by its name alone")

	target.Operation.Path = strings.Replace(target.Operation.Path, "=pin", "=hidden-pin", 1)
	report, err = Run(t.Context(), target)
	require.NoError(t, err)
	res, _ = report.Result(slugBaseline)
	require.Equal(t, path, res.Exchanges[0].Path)
	require.Contains(t, res.Exchanges[0].Curl, `&sig='"$SIG"'&api%5Fkey='"$API_KEY"'&page=shown'`)
	require.NotContains(t, res.Exchanges[0].Curl, "hidden-")
}

// A counter that echoes its request must not carry a secret into the error.
func TestErrorHoldsNoSecret(t *testing.T) {
	target := counting(t, func(int64) string { return "no entry for hidden-counter" })
	target.Effects.Headers = map[string]string{"X-Count": "hidden-counter"}
	report, err := Run(t.Context(), target)
	require.ErrorIs(t, err, ErrConfig)
	require.ErrorContains(t, err, "no entry for ***")
	require.NotContains(t, err.Error()+report.Stopped.Message, "hidden")
}

// A server that never stops must not fill the memory.
func TestEndlessHeaderIsCut(t *testing.T) {
	a := &answer{}
	a.read(io.MultiReader(strings.NewReader("HTTP/1.1 200 OK\r\nX: "), endless{}), "POST")
	require.Error(t, a.err)
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

func TestReportComesBackFromJSONWhole(t *testing.T) {
	l := newLab(t)
	l.front = rewriting(func(_ *http.Request, a *httptest.ResponseRecorder) {
		if isReplay(a) && a.Code == http.StatusCreated {
			setBody(a, "\xff\x00 other")
		}
	})
	report, err := Run(t.Context(), l.start().target(), Only("replay", "key-bad-bytes", "fault-5xx"),
		ExpectFailure(slugStatus, "x"))
	require.NoError(t, err)
	document, err := json.Marshal(report)
	require.NoError(t, err)
	var back Report
	require.NoError(t, json.Unmarshal(document, &back))
	require.Equal(t, report, back)
	require.Equal(t, Schema, back.Schema)
	again, err := json.Marshal(back)
	require.NoError(t, err)
	require.Equal(t, string(document), string(again))
}

func TestFailureShowsAllThatItTakesToUnderstandIt(t *testing.T) {
	l := newLab(t)
	l.front = rewriting(func(_ *http.Request, a *httptest.ResponseRecorder) {
		if isReplay(a) {
			a.Code = http.StatusOK
		}
	})
	report, err := Run(t.Context(), l.start().target(), Only(slugStatus), Seed(42))
	require.NoError(t, err)
	res, _ := report.Result(slugStatus)
	require.Equal(t, Fail, res.Verdict)
	require.Equal(t, []Finding{{Fail, "status 201", "200 with 50 bytes"}}, sized(res.Findings))
	require.Len(t, res.Exchanges, 3)
	for i, x := range res.Exchanges {
		require.GreaterOrEqual(t, x.DoneMicros, x.FirstMicros)
		require.GreaterOrEqual(t, x.FirstMicros, x.SentMicros)
		require.Equal(t, []int{201, 200, 200}[i], x.Status)
		require.Contains(t, x.RequestHeader, "Authorization: ***")
	}
	text := texts(report)
	for _, part := range []string{
		"FAIL replay-status: A replay has the first response's status.",
		"source    draft-ietf-httpapi-idempotency-key-header-07 section 2.6: SHOULD (here MUST)",
		"expected  status 201", "actual    200 with",
		"rerun     redo check TARGET --run replay-status --seed 42",
		"curl      K1=" + newUUID + "; for i in 1 2 3; do curl -gsi -X POST",
	} {
		require.Contains(t, text, part)
	}
}

// sized makes lengths the same, since ids grow.
func sized(findings []Finding) []Finding {
	for i := range findings {
		findings[i].Actual = "200 with 50 bytes"
	}
	return findings
}

// The shell must read every byte of a line as intended. printf replaces curl.
func TestCurlLineIsQuotedForTheShell(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	for _, s := range []string{"plain", "it's", `a\b"c`, "$HOME `x`", "\xE9\x01'\\", "{\"a\": 1}\n", ""} {
		out, err := exec.Command(bash, "-c", "printf %s "+quote(s)).Output()
		require.NoError(t, err)
		require.Equal(t, s, string(out))
	}
}

// The line must do the same as the case. It runs where there is a curl.
func TestCurlLineSendsTheSameRequest(t *testing.T) {
	for _, program := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("there is no " + program)
		}
	}
	l := newLab(t)
	l.front = rewriting(func(_ *http.Request, a *httptest.ResponseRecorder) {
		if isReplay(a) {
			a.Code = http.StatusOK
		}
	})
	report, err := Run(t.Context(), l.start().target(), Only(slugStatus))
	require.NoError(t, err)
	res, _ := report.Result(slugStatus)
	require.Contains(t, res.Curl, `-H 'Authorization: '"$ALICE_AUTHORIZATION"`)
	cmd := exec.Command("bash", "-c", res.Curl)
	cmd.Env = append(os.Environ(), "ALICE_AUTHORIZATION=Bearer somebody")
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(out), "HTTP/1.1 201"), res.Curl)
	require.Equal(t, 2, strings.Count(string(out), "HTTP/1.1 200"), res.Curl)
}

func TestBytesThatAreNoTextAreWrittenAsTheyAre(t *testing.T) {
	require.Equal(t, `caf\xE9 é`+"\n"+`\x00\x7F`, printable("caf\xE9 é\n\x00\x7F"))
	m := newMask(Target{})
	require.Equal(t, strings.Repeat("é", 512)+"... (2000 bytes in all)", m.body([]byte(strings.Repeat("é", 1000))))
}

func TestTLSTargetIsSpokenToOverTLS(t *testing.T) {
	t.Parallel() // runs spend their time waiting
	l := newLab(t)
	l.open(memstore.New())
	t.Cleanup(l.closeStore)
	srv := httptest.NewUnstartedServer(l.handler)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	target := l.target()
	target.BaseURL = srv.URL
	target.Restart = nil
	only := Only("ctl", "replay-effect", "conc-one-effect", "fault-lost-response", "fault-truncated-request")

	_, err := Run(t.Context(), target, only)
	require.ErrorIs(t, err, ErrUnreachable) // no authority vouches for the certificate

	target.TLS = srv.Client().Transport.(*http.Transport).TLSClientConfig
	report, err := Run(t.Context(), target, only)
	require.NoError(t, err)
	require.Empty(t, broken(report), texts(report))
	require.Zero(t, report.ExitCode(true), texts(report))
}

func TestWhatIsNotDeclaredIsSkippedAndSaid(t *testing.T) {
	target, _ := forgetful(t, constant)
	report, err := Run(t.Context(), target)
	require.NoError(t, err)
	res, _ := report.Result("restart-durable")
	require.Equal(t, Skip, res.Verdict)
	require.Equal(t, "the target does not declare a restart command, nor a way to count effects", res.Reason)
	var b bytes.Buffer
	require.NoError(t, report.WriteText(&b))
	require.Contains(t, b.String(), res.Reason)
}

// A line that leaves out the race, or the second principal, would show something else.
func TestCurlLineDoesWhatTheCaseDidOrIsNotThere(t *testing.T) {
	l := newLab(t)
	l.front = keyed(func(_ http.ResponseWriter, r *http.Request, _ string, _ []byte) bool {
		r.Header.Set("Idempotency-Key", freshKey())
		r.Header.Set("Authorization", "Bearer everybody")
		return false
	})
	report, err := Run(t.Context(), l.start().target(), Only("conc-one-effect", "replay-effect", "scope-undetectable"))
	require.NoError(t, err)
	res, _ := report.Result("conc-one-effect")
	require.Equal(t, Fail, res.Verdict)
	require.Empty(t, res.Curl)
	res, _ = report.Result("replay-effect")
	require.Equal(t, 1, strings.Count(res.Curl, "curl -gsi"))
	require.Contains(t, res.Curl, "for i in 1 2 3; do curl -gsi")

	target := Target{Principals: []Principal{{Name: "bob-2", Headers: map[string]string{"X-Api-Key": "b"}},
		{Headers: map[string]string{"Authorization": "c"}}}}
	require.Equal(t, "BOB_2_X_API_KEY", target.variable(field{"x-api-key", "b"}))
	require.Equal(t, "PRINCIPAL_2_AUTHORIZATION", target.variable(field{"Authorization", "c"}))
	require.Equal(t, "AUTHORIZATION", target.variable(field{"Authorization", "another"}))
}
