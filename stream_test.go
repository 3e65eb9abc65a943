package redo_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

const ndjson = "application/x-ndjson"

// lines returns a handler that streams one line each second, and a trailer. It breaks off after the n-th line if n is
// positive.
func lines(contentType string, n int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Trailer", "X-Sum")
		for i := range 3 {
			if i > 0 {
				time.Sleep(time.Second)
			}
			if n > 0 && i == n {
				panic(http.ErrAbortHandler)
			}
			_, _ = io.WriteString(w, "{}\n")
			_ = http.NewResponseController(w).Flush()
		}
		w.Header().Set("X-Sum", "3")
	}
}

func TestStreamOfAStoredOperationIsHandedOverAtOnce(t *testing.T) {
	classifier := redo.WithClassifier(func(_ *http.Response, _ []byte, v taxonomy.Verdict) taxonomy.Verdict {
		return v
	})
	for _, c := range []struct {
		name, contentType string
		opts              []redo.Option
		at                time.Duration // when Do returns
	}{
		{"NDJSON", ndjson, nil, 0},
		{"NDJSON with a parameter", ndjson + "; charset=utf-8", nil, 0},
		{"events", "text/event-stream", nil, 0},
		{"events of AWS", "application/vnd.amazon.eventstream", nil, 0},
		{"NDJSON past a classifier", ndjson, []redo.Option{classifier}, 0},
		{"JSON is read for the record", "application/json", nil, 2 * time.Second},
	} {
		for _, face := range []string{"Do", "Transport"} {
			t.Run(c.name+", "+face, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv, st := serving(t, lines(c.contentType, 0)), openStore(t)
					client := connect(t, srv.Transport(), append(c.opts, redo.WithStore(st))...)
					do := client.Do
					if face == "Transport" {
						do = under(client).Do
					}
					start := time.Now()
					resp, err := do(named(t, srv, "op", payment))
					require.NoError(t, err)
					require.Equal(t, c.at, time.Since(start))
					from := bufio.NewReader(resp.Body)
					first, err := from.ReadString('\n')
					require.NoError(t, err)
					require.Equal(t, "{}\n", first)
					require.Equal(t, c.at, time.Since(start), "the first line comes immediately")
					if c.at == 0 {
						require.Equal(t, store.StatePending, record(t, st, "op").State)
					}
					rest, err := io.ReadAll(from)
					require.NoError(t, err)
					require.Equal(t, "{}\n{}\n", string(rest))
					require.Equal(t, store.StateComplete, record(t, st, "op").State,
						"it is settled at its end, before Close")
					require.Equal(t, http.Header{"X-Sum": {"3"}}, resp.Trailer)
					require.NoError(t, resp.Body.Close())

					again, err := do(named(t, srv, "op", payment))
					require.NoError(t, err)
					require.Equal(t, "{}\n{}\n{}\n", drain(t, again))
					require.True(t, redo.Replayed(again))
					require.Len(t, srv.Requests(), 1, "it is not sent again")
				})
			})
		}
	}
}

// The head of a success is evidence enough: a stream that was not read to its end was applied, and only its body
// is unknown.
func TestStreamThatIsNotReadToItsEndIsSettledWithoutItsBody(t *testing.T) {
	for _, c := range []struct {
		name string
		cut  int
		read func(*testing.T, *http.Response)
		kept bool
	}{
		{"it breaks off", 2, func(t *testing.T, resp *http.Response) {
			_, err := io.ReadAll(resp.Body)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		}, false},
		{"the caller closes it early", 0, func(t *testing.T, resp *http.Response) {
			_, err := bufio.NewReader(resp.Body).ReadString('\n')
			require.NoError(t, err)
		}, false},
		{"the caller closes it unread", 0, func(*testing.T, *http.Response) {}, false},
		{"the caller reads it to its end", 0, func(t *testing.T, resp *http.Response) {
			_, err := io.Copy(io.Discard, resp.Body)
			require.NoError(t, err)
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, st := serving(t, lines(ndjson, c.cut), lines(ndjson, 0)), openStore(t)
				client := connect(t, srv.Transport(), redo.WithStore(st))
				resp, err := client.Do(named(t, srv, "op", payment))
				require.NoError(t, err)
				c.read(t, resp)
				require.NoError(t, resp.Body.Close())
				require.NoError(t, resp.Body.Close(), "closing again does nothing")
				rec := record(t, st, "op")
				require.Equal(t, store.StateComplete, rec.State)
				require.Equal(t, c.kept, strings.Contains(atRest(t, rec), "{}\n"))
				op, err := client.Find(t.Context(), "op")
				require.NoError(t, err)
				require.Equal(t, redo.Applied, op.Effect)

				// from the store, or from the server's record
				_, body := succeed(t, client, named(t, srv, "op", payment))
				require.Equal(t, "{}\n{}\n{}\n", body)
				for _, key := range keys(srv) {
					require.Equal(t, redo.KeyOf(resp), key)
				}
				require.Len(t, srv.Requests(), map[bool]int{true: 1, false: 2}[c.kept])

				time.Sleep(25 * time.Hour) // the server may have forgotten the key
				late, err := client.Do(named(t, srv, "op", payment))
				if c.kept {
					require.NoError(t, err)
					require.Equal(t, "{}\n{}\n{}\n", drain(t, late))
					return
				}
				e := failure(t, err)
				require.Equal(t, taxonomy.ResultNotStored, e.Code)
				require.Equal(t, redo.Applied, e.Effect)
			})
		})
	}
}

// The head of a gRPC response is no evidence: the status of the call is in its trailers, or in the header of a response
// without a message. A record keeps no trailers, so the server replays a success.
func TestGRPCCallIsSettledByItsOwnStatus(t *testing.T) {
	for _, c := range []struct {
		name, header, trailer string
		settled               bool
	}{
		{"a success", "", "0", true},
		{"a failure after a message", "", "14", false},
		{"a failure without a message", "14", "", false},
		{"a response that breaks off", "", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/grpc")
					if c.header != "" {
						w.Header().Set("Grpc-Status", c.header)
						return
					}
					w.Header().Set("Trailer", "Grpc-Status")
					_, _ = io.WriteString(w, "message")
					_ = http.NewResponseController(w).Flush()
					if c.trailer == "" {
						panic(http.ErrAbortHandler)
					}
					w.Header().Set("Grpc-Status", c.trailer)
				}
				then := func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/grpc")
					w.Header().Set("Trailer", "Grpc-Status")
					_, _ = io.WriteString(w, "message")
					w.Header().Set("Grpc-Status", "0")
				}
				srv, st := serving(t, first, then), openStore(t)
				client := connect(t, srv.Transport(), redo.WithStore(st))
				resp, err := under(client).Do(named(t, srv, "op", payment))
				require.NoError(t, err)
				_, _ = io.Copy(io.Discard, resp.Body)
				require.NoError(t, resp.Body.Close())
				require.Equal(t, c.settled, record(t, st, "op").State == store.StateComplete)

				again, err := under(client).Do(named(t, srv, "op", payment))
				require.NoError(t, err)
				require.Equal(t, "message", drain(t, again))
				require.Equal(t, http.Header{"Grpc-Status": {"0"}}, again.Trailer)
				require.Equal(t, store.StateComplete, record(t, st, "op").State)
				sent := keys(srv)
				require.Len(t, sent, 2)
				require.Equal(t, sent[0], sent[1])
			})
		})
	}
}

// gRPC-Web and the streams of Connect have the status of the call in the last message of the body.
func TestCallThatFailsInItsBodyIsSentAgain(t *testing.T) {
	const web, stream = "application/grpc-web+proto", "application/connect+json"
	const message, ok = "\x00\x00\x00\x00\x02{}", "\x80\x00\x00\x00\x0fgrpc-status: 0\r"
	const failed = "\x80\x00\x00\x00\x0fgrpc-status: 9\r"
	const end, failure = "\x02\x00\x00\x00\x02{}", "\x02\x00\x00\x00\x0c{\"error\":{}}"
	for _, c := range []struct{ name, contentType, first, then string }{
		{"gRPC-Web", web, failed, message + ok},
		{"gRPC-Web, after a message", web, message + failed, message + ok},
		{"a response of gRPC-Web that breaks off", web, message, message + ok},
		{"a stream of Connect", stream, message + failure, message + message + end},
	} {
		for _, closed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, closed at its last byte: %v", c.name, closed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					respond := func(body string) http.HandlerFunc {
						return func(w http.ResponseWriter, _ *http.Request) {
							w.Header().Set("Content-Type", c.contentType)
							_, _ = io.WriteString(w, body)
						}
					}
					srv, st := serving(t, respond(c.first), respond(c.then)), openStore(t)
					client := connect(t, srv.Transport(), redo.WithStore(st))
					for i, body := range []string{c.first, c.then, c.then} { // the last one comes from the store
						resp, err := under(client).Do(named(t, srv, "op", payment))
						require.NoError(t, err)
						got := make([]byte, len(body))
						_, err = io.ReadFull(resp.Body, got)
						require.NoError(t, err)
						require.Equal(t, body, string(got))
						if !closed {
							require.Empty(t, drain(t, resp))
						}
						err = resp.Body.Close() // an error if the status was not found
						require.True(t, err == nil || i == 0, err)
						require.Equal(t, i > 0, record(t, st, "op").State == store.StateComplete)
					}
					sent := keys(srv)
					require.Len(t, sent, 2)
					require.Equal(t, sent[0], sent[1])
				})
			})
		}
	}
}

// Resume is often followed by a Close at once.
func TestResumeEveryReadsTheStatusOfACall(t *testing.T) {
	web := func(status string) func(*http.Response) {
		return func(resp *http.Response) {
			resp.Header.Set("Content-Type", "application/grpc-web")
			resp.ContentLength = -1
			resp.Body = io.NopCloser(strings.NewReader("\x80\x00\x00\x00\x0fgrpc-status: " + status + "\r"))
		}
	}
	rpc := func(status string) func(*http.Response) {
		return func(resp *http.Response) {
			resp.Header.Set("Content-Type", "application/grpc")
			resp.Trailer = http.Header{"Grpc-Status": {status}}
		}
	}
	cut := func(resp *http.Response) {
		web("0")(resp)
		resp.Body = io.NopCloser(io.MultiReader(resp.Body, iotest.ErrReader(io.ErrUnexpectedEOF)))
	}
	silent := func(resp *http.Response) {
		from, _ := io.Pipe()
		web("")(resp)
		resp.Body = from
	}
	for name, answers := range map[string][]func(*http.Response){
		"gRPC-Web": {web("9"), web("0")}, "gRPC": {rpc("9"), rpc("0")}, "cut off after its status": {cut},
		"silent": {silent, web("0")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, sent, got := openStore(t), 0, resumptions{}
				leaveBehind(t, st, "a")
				resumeFor(t, 10*time.Minute, time.Minute, got.report, resuming(t, tripper(
					func(r *http.Request) (*http.Response, error) {
						resp := answer(r, 200, "")
						answers[sent](resp)
						sent++
						return resp, nil
					}), st))
				require.Len(t, got["a"], len(answers))
				require.Equal(t, len(answers), sent)
				require.Error(t, got["a"][0])
				if sent > 1 {
					require.NoError(t, got["a"][1])
				}
				require.Equal(t, store.StateComplete, record(t, st, "a").State)
			})
		})
	}
}

func TestStreamOverTheCapIsHandedOverWholeAndNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, st := serving(t, lines(ndjson, 0)), openStore(t)
		client := connect(t, srv.Transport(), redo.WithStore(st), redo.WithMaxStoredBody(8))
		_, body := succeed(t, client, named(t, srv, "op", payment))
		require.Equal(t, "{}\n{}\n{}\n", body)
		rec := record(t, st, "op")
		require.Equal(t, store.StateComplete, rec.State)
		require.NotContains(t, atRest(t, rec), "{}\n")
	})
}

// A classifier may refuse a success by its header. Nothing waits for the rest of its body then, and nothing stays
// open.
func TestStreamThatAClassifierRefusesIsClosed(t *testing.T) {
	for _, class := range []taxonomy.Class{taxonomy.ClassTransient, taxonomy.ClassTerminal} {
		t.Run(class.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var bodies []*watchedBody
				client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
					resp := answer(r, 200, "", "Content-Type", ndjson)
					from, _ := io.Pipe() // nothing ever comes
					bodies = append(bodies, &watchedBody{Reader: from})
					resp.Body, resp.ContentLength = bodies[len(bodies)-1], -1
					return resp, nil
				}), redo.WithStore(openStore(t)), redo.WithClassifier(func(*http.Response, []byte,
					taxonomy.Verdict) taxonomy.Verdict {
					return taxonomy.Verdict{Code: taxonomy.Unavailable, Class: class, Effect: redo.NotApplied}
				}))
				e := fail(t, client, post(t, redo.WithOperation(t.Context(), "op"), "http://api.test/", payment))
				require.Len(t, bodies,
					map[taxonomy.Class]int{taxonomy.ClassTransient: 5, taxonomy.ClassTerminal: 1}[class])
				for _, body := range bodies {
					require.Positive(t, body.closed.Load())
				}
				require.Empty(t, drain(t, e.Response))
			})
		})
	}
}

func TestSuccessThatAClassifierRefusesKeepsItsBodyOnRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
			return answer(r, 200, `{"ok":false}`), nil
		}), redo.WithStore(openStore(t)), redo.WithClassifier(func(*http.Response, []byte,
			taxonomy.Verdict) taxonomy.Verdict {
			return taxonomy.Verdict{Code: taxonomy.Duplicate, Effect: redo.Applied}
		}))
		for range 2 { // from the server, and then from the store
			e := fail(t, client, post(t, redo.WithOperation(t.Context(), "op"), "http://api.test/", payment))
			require.Equal(t, taxonomy.Duplicate, e.Code)
			require.Equal(t, `{"ok":false}`, drain(t, e.Response))
		}
	})
}

// The attempt's time ends with the head: a stream may take longer.
func TestStreamOutlivesTheAttemptsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := serving(t, lines(ndjson, 0))
		client := connect(t, srv.Transport(), redo.WithStore(openStore(t)),
			redo.WithRetry(redo.RetryPolicy{AttemptTimeout: time.Second}))
		start := time.Now()
		_, body := succeed(t, client, named(t, srv, "op", payment))
		require.Equal(t, "{}\n{}\n{}\n", body)
		require.Equal(t, 2*time.Second, time.Since(start))
		require.Len(t, srv.Requests(), 1)

		_, err := connect(t, serving(t, stalls("application/json", "{")).Transport(), redo.WithStore(openStore(t)),
			redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1, AttemptTimeout: time.Second})).Do(named(t, srv, "other",
			payment))
		require.ErrorIs(t, err, redo.ErrAttemptTimeout, "a response that is read for the record may not")
	})
}

// The sender of a stream may wait for a response before it writes the next message. To read its body ahead would wait
// for ever, so it gets no key of its own and is sent once.
func TestAStreamThatIsSentIsNotReadAhead(t *testing.T) {
	t.Setenv("GODEBUG", "http2client=1,http2server=1") // the environment may switch HTTP/2 off
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := bufio.NewReader(r.Body)
		for {
			message, err := from.ReadString('\n')
			if err != nil {
				return
			}
			_, _ = io.WriteString(w, message)
			_ = http.NewResponseController(w).Flush()
		}
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	client := connect(t, srv.Client().Transport, redo.WithProfile(redo.RedoProfile()))
	for name, do := range map[string]func(*http.Request) (*http.Response, error){
		"Do": client.Do, "Transport": under(client).Do,
	} {
		body, in := io.Pipe()
		time.AfterFunc(10*time.Second, func() { _ = in.CloseWithError(errors.New("the body was read ahead")) })
		go func() { _, _ = io.WriteString(in, "1\n") }()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, body)
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/connect+json")
		resp, err := do(req)
		require.NoError(t, err, name)
		require.Empty(t, redo.KeyOf(resp))
		from := bufio.NewReader(resp.Body)
		for i := range 3 {
			message, err := from.ReadString('\n')
			require.NoError(t, err, name)
			require.Equal(t, fmt.Sprintln(i+1), message)
			_, err = fmt.Fprintln(in, i+2)
			require.NoError(t, err)
		}
		require.NoError(t, in.Close())
		require.NoError(t, resp.Body.Close())
	}
}
