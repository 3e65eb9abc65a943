package redo_test

import (
	"encoding/csv"
	"io"
	"net/http"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/taxonomy"
)

// table reads testdata/name: one map per row, by the names in its first row.
func table(t *testing.T, name string) []map[string]string {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	rows, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	require.Greater(t, len(rows), 1)
	var out []map[string]string
	for _, row := range rows[1:] {
		m := map[string]string{}
		for i, cell := range row {
			m[rows[0][i]] = cell
		}
		out = append(out, m)
	}
	return out
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// The client repeats the log of another one: a timeout, a 502, a success, one key over all three.
func TestClientRetryLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := table(t, "client_retry_log.csv")
		const timeout = time.Second
		var script []servertest.Fault
		var waits []time.Duration
		var want []redo.Attempt
		for i, row := range rows {
			require.Equal(t, i+1, number(t, row["attempt"]))
			if i > 0 {
				waits = append(waits, time.Duration(number(t, row["delay_ms"]))*time.Millisecond)
			}
			attempt := redo.Attempt{Number: i + 1, WireSends: 1}
			switch row["status"] {
			case "timeout":
				script = append(script, servertest.DelayAfterEffect(time.Hour))
				attempt.Code, attempt.Elapsed = taxonomy.Timeout, timeout
			case "5xx":
				script = append(script, servertest.StatusAfterEffect(number(t, row["code"])))
				attempt.Code, attempt.Status = taxonomy.Unavailable, number(t, row["code"])
			default:
				script = append(script, servertest.OK())
				attempt.Status = number(t, row["code"])
			}
			want = append(want, attempt)
		}
		for i := range waits {
			want[i].Wait = waits[i]
		}

		srv := servertest.NewInMemory(t, servertest.ScriptNext(script...))
		var ends []redo.AttemptEnd
		client := connect(t, srv.Transport(), redo.WithStore(openStore(t)), redo.WithObserver(&attemptLog{&ends}),
			redo.WithRetry(redo.RetryPolicy{
				AttemptTimeout: timeout,
				Jitter: func(n int, _ time.Duration, _ redo.RetryPolicy, _ float64) time.Duration {
					return waits[n]
				},
			}))
		start := time.Now()
		resp, body := succeed(t, client, named(t, srv, "refund", payment))

		require.Equal(t, number(t, rows[len(rows)-1]["code"]), resp.StatusCode)
		require.JSONEq(t, `{"id":"rf_1"}`, body)
		require.Equal(t, timeout+waits[0]+waits[1], time.Since(start))
		require.Equal(t, []time.Duration{0, timeout + waits[0], timeout + waits[0] + waits[1]}, offsets(srv, start))
		var got []redo.Attempt
		for _, end := range ends {
			end.Attempt.Err = nil
			got = append(got, end.Attempt)
		}
		require.Equal(t, want, got)
		key := redo.KeyOf(resp)
		require.Equal(t, []string{key, key, key}, keys(srv))
		srv.Ledger().AssertEffects(t, key, 1)
	})
}

// The server's outcomes for one key, seen from the client: created, replayed, refused for another payload.
func TestReplayOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := table(t, "replay_outcomes.csv")
		srv := servertest.NewInMemory(t,
			servertest.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, err := servertest.Effect(r.Context())
				require.NoError(t, err)
				w.WriteHeader(http.StatusCreated)
				_, _ = io.WriteString(w, rows[0]["result_id"])
			})))
		client := connect(t, srv.Transport()) // without a store, so that the server responds
		for _, row := range rows {
			req := post(t, redo.WithKey(t.Context(), row["key"]), srv.URL+"/refunds", row["payload_hash"])
			if row["status"] == "complete" {
				resp, body := succeed(t, client, req)
				require.Equal(t, number(t, row["http_code"]), resp.StatusCode)
				require.Equal(t, row["result_id"], body)
				require.Equal(t, row["notes"] == "replayed", redo.Replayed(resp))
				continue
			}
			e := fail(t, client, req)
			require.Equal(t, number(t, row["http_code"]), e.StatusCode)
			require.Equal(t, taxonomy.PayloadMismatch, e.Code)
			require.Equal(t, redo.NotApplied, e.Effect)
			require.True(t, e.Said(), "by the server's problem document")
			require.Len(t, e.Attempts, 1, "never retried")
		}
		srv.Ledger().AssertEffects(t, rows[0]["key"], 1)
		require.Equal(t, len(rows), srv.Ledger().Requests(rows[0]["key"]))
	})
}

// The same three, of one operation and a store: the second and the third never leave the process.
func TestReplayOutcomesOfAStoredOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t)
		client := connect(t, srv.Transport(), redo.WithStore(openStore(t)))
		for _, row := range table(t, "replay_outcomes.csv") {
			req := post(t, redo.WithKey(redo.WithOperation(t.Context(), "refund"), row["key"]), srv.URL+"/refunds",
				row["payload_hash"])
			if row["status"] == "complete" {
				resp, _ := succeed(t, client, req)
				require.Equal(t, number(t, row["http_code"]), resp.StatusCode)
				require.Equal(t, row["notes"] == "replayed", redo.Replayed(resp))
				continue
			}
			require.Equal(t, taxonomy.PayloadMismatch, fail(t, client, req).Code)
		}
		require.Len(t, srv.Requests(), 1)
	})
}
