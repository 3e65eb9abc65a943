package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/benchmarks/contest"
	"github.com/redo-go/redo/servertest"
)

const page = "../../docs/performance.md"

// A promise is a column of the clients' table. observe returns its cell.
type promise struct {
	title   string
	observe func(t *testing.T, p peer) string
}

// Cells of the tables. A cell may also state which part of a promise is kept.
const (
	kept    = "yes"
	broken  = "no"
	without = "–" // the promise is about retries, and there are none
)

var promises = []promise{
	{"sends a key", sendsKey},
	{"the same key in each retry", repeatsKey},
	{"the same key after a restart", keepsKey},
	{"retries", retriesTransient},
	{"waits for Retry-After", waitsForHint},
	{"sends once after", sendsOnce},
	{"rewinds the body", rewinds},
	{"ends a call that hangs", endsCall},
	{"reports the effect", reportsEffect},
}

// TestPromises runs every client against a server in memory that fails in scripted ways, in virtual time. It compares
// the result with the table in the documentation.
func TestPromises(t *testing.T) {
	rows := [][]string{{"Client"}}
	for _, p := range promises {
		rows[0] = append(rows[0], p.title)
	}
	for _, of := range peers {
		row := []string{of.name + version(t, of.module)}
		for _, p := range promises {
			var cell string
			t.Run(of.name+"/"+p.title, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { cell = p.observe(t, of) })
			})
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	compare(t, "promises", markdown(rows))
}

// compare fails the test if the documentation has another table. With REDO_TEST_UPDATE=1 it writes the table.
func compare(t *testing.T, name, table string) {
	t.Helper()
	if os.Getenv("REDO_TEST_UPDATE") != "" {
		require.NoError(t, contest.Publish(page, []contest.Block{{Name: name, Text: table}}))
	}
	content, err := os.ReadFile(page)
	require.NoError(t, err)
	documented, err := contest.Find(string(content), name)
	require.NoError(t, err)
	require.Equal(t, documented, table, "the table in %s is stale: REDO_TEST_UPDATE=1 writes it", page)
}

// version returns the version of a required module, after a blank.
func version(t *testing.T, module string) string {
	if module == "" {
		return ""
	}
	mod, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	for line := range strings.Lines(string(mod)) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == module {
			return " " + strings.TrimPrefix(fields[1], "v")
		}
	}
	t.Fatalf("go.mod does not require %s", module)
	return ""
}

var payload = []byte(`{"payment":"ch_9ab","cents":1000}`)

// A trial is one or more calls of a peer to a server that fails.
type trial struct {
	*servertest.Server
	sender
	key []string // of the caller; nil if the library makes one
}

// try starts a server whose handler responds with respond. Responses are lost as the script says.
func try(t *testing.T, p peer, respond func(n int, w http.ResponseWriter), script ...servertest.Fault) *trial {
	n := 0 // requests arrive one after the other
	tr := &trial{Server: servertest.NewInMemory(t, servertest.Bare(), servertest.Lenient(),
		servertest.ScriptEach(script...),
		servertest.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			n++
			respond(n, w)
		})))}
	if !p.makesKey {
		tr.key = []string{"the-callers-key"}
	}
	tr.open(t, p, t.TempDir())
	return tr
}

// open replaces the client, as a restart of its process does.
func (tr *trial) open(t *testing.T, p peer, dir string) {
	s, err := p.open(target{rt: tr.Transport(), url: tr.URL + "/v1/refunds", dir: dir, patient: true})
	require.NoError(t, err)
	tr.sender = s
}

func (tr *trial) call(t *testing.T) error { return tr.send(t.Context(), payload, tr.key) }

// end closes the client and checks that the trial was one.
func (tr *trial) end(t *testing.T) {
	require.NoError(t, tr.stop())
	require.NotEmpty(t, tr.Requests())
}

func created(_ int, w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write([]byte(`{"id":"rf_1138"}`))
}

// refuseFirst responds to the first request with a status and the JSON error that most APIs send.
func refuseFirst(status int, retryAfter string) func(int, http.ResponseWriter) {
	return func(n int, w http.ResponseWriter) {
		if n > 1 {
			created(n, w)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"error":{"type":"api_error","message":"status %d"}}`, status)
	}
}

// retried makes a call whose first response is a 503 or is lost. It returns nil if there was no retry.
func retried(t *testing.T, p peer, lost bool) []servertest.Request {
	respond, script := refuseFirst(http.StatusServiceUnavailable, ""), []servertest.Fault(nil)
	if lost {
		respond, script = created, []servertest.Fault{servertest.CloseAfterEffect()}
	}
	tr := try(t, p, respond, script...)
	err := tr.call(t)
	tr.end(t)
	if len(tr.Requests()) < 2 {
		require.Error(t, err)
		return nil
	}
	require.NoError(t, err)
	require.Len(t, tr.Requests(), 2)
	return tr.Requests()
}

// eitherRetry returns the requests of a call that was retried, and nil if neither failure was.
func eitherRetry(t *testing.T, p peer) []servertest.Request {
	if all := retried(t, p, false); all != nil {
		return all
	}
	return retried(t, p, true)
}

func sendsKey(t *testing.T, p peer) string {
	tr := try(t, p, created)
	tr.key = nil
	require.NoError(t, tr.call(t))
	tr.end(t)
	made := tr.Requests()[0].Key != ""
	require.Equal(t, p.makesKey, made)
	return verdict(made)
}

func repeatsKey(t *testing.T, p peer) string {
	all := eitherRetry(t, p)
	switch {
	case all == nil:
		return without
	case all[0].Key == "" || all[0].Key != all[1].Key:
		return broken
	case all[0].Key == "the-callers-key":
		return "the caller's"
	}
	return kept
}

// keepsKey ends a process while a call waits for its response. The next process calls again.
func keepsKey(t *testing.T, p peer) string {
	tr := try(t, p, func(n int, w http.ResponseWriter) {
		if n == 1 {
			time.Sleep(time.Minute)
		}
		created(n, w)
	})
	tr.key = nil
	require.NoError(t, tr.stop())
	dir := t.TempDir()
	tr.open(t, p, dir)
	ctx, crash := context.WithTimeout(t.Context(), time.Second)
	defer crash()
	require.Error(t, tr.send(ctx, payload, tr.key))
	require.NoError(t, tr.stop())
	time.Sleep(2 * time.Minute) // the late response
	tr.open(t, p, dir)
	require.NoError(t, tr.call(t))
	tr.end(t)
	all := tr.Requests()
	require.Len(t, all, 2)
	return verdict(all[0].Key != "" && all[0].Key == all[1].Key)
}

func retriesTransient(t *testing.T, p peer) string {
	status, lost := retried(t, p, false) != nil, retried(t, p, true) != nil
	require.Equal(t, p.retries, status, "it decides whether the peer is measured with 503, then 201")
	switch {
	case status && lost:
		return "a 503, a lost response"
	case status:
		return "a 503"
	case lost:
		return "a lost response"
	}
	return broken
}

func waitsForHint(t *testing.T, p peer) string {
	tr := try(t, p, refuseFirst(http.StatusServiceUnavailable, "7"))
	_ = tr.call(t) // the requests count
	tr.end(t)
	all := tr.Requests()
	if len(all) < 2 {
		return without
	}
	return verdict(all[1].At.Sub(all[0].At) >= 7*time.Second)
}

func sendsOnce(t *testing.T, p peer) string {
	var once []string
	for _, status := range []int{http.StatusUnprocessableEntity, http.StatusNotImplemented} {
		tr := try(t, p, refuseFirst(status, ""))
		_ = tr.call(t) // the requests count
		tr.end(t)
		if len(tr.Requests()) == 1 {
			once = append(once, fmt.Sprint(status))
		}
	}
	if len(once) == 0 {
		return broken
	}
	return strings.Join(once, ", ")
}

func rewinds(t *testing.T, p peer) string {
	all := eitherRetry(t, p)
	if all == nil {
		return without
	}
	return verdict(string(all[0].Body) == string(payload) && string(all[1].Body) == string(payload))
}

// endsCall returns the time after which a call ends whose responses all take an hour. The caller sets no deadline.
func endsCall(t *testing.T, p peer) string {
	late := make([]servertest.Fault, 10)
	for i := range late {
		late[i] = servertest.Delay(time.Hour)
	}
	tr := try(t, p, created, late...)
	start := time.Now()
	err := tr.call(t)
	took := time.Since(start)
	require.Equal(t, p.bounds, took <= 10*time.Second)
	tr.end(t)
	if err == nil {
		require.GreaterOrEqual(t, took, time.Hour)
		return broken
	}
	cell := fmt.Sprintf("after %.0f s", took.Round(10*time.Second).Seconds())
	if n := len(tr.Requests()); n > 1 {
		cell += fmt.Sprintf(", %d attempts", n)
	}
	return cell
}

// reportsEffect compares the library's statement with the server's effects: after calls that were never sent, and
// after calls that had their effect but lost the response.
func reportsEffect(t *testing.T, p peer) string {
	if p.effect == nil {
		return broken
	}
	lose := make([]servertest.Fault, 10)
	for i := range lose {
		lose[i] = servertest.CloseAfterEffect()
	}
	tr := try(t, p, created, lose...)
	err := tr.call(t)
	require.Error(t, err)
	tr.end(t)
	if p.effect(err) == "not applied" {
		return broken
	}

	refused := try(t, p, created)
	refused.Close()
	err = refused.call(t)
	require.Error(t, err)
	require.NoError(t, refused.stop())
	require.Empty(t, refused.Requests())
	return verdict(p.effect(err) == "not applied")
}

func verdict(ok bool) string {
	if ok {
		return kept
	}
	return broken
}
