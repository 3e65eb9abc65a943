package redo_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/taxonomy"
)

// together makes n calls of one operation at the same time, and returns the results of each.
func together(t *testing.T, n int, client *redo.Client, req func(i int) *http.Request) ([]*http.Response, []error) {
	t.Helper()
	responses, errs := make([]*http.Response, n), make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { responses[i], errs[i] = client.Do(req(i)) })
	}
	group.Wait()
	return responses, errs
}

func TestEightCallersOfOneOperationSendOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, slow(time.Second))
		client := connect(t, srv.Transport(), redo.WithStore(openStore(t)))
		responses, errs := together(t, 8, client, func(int) *http.Request { return named(t, srv, "op", payment) })
		for i, resp := range responses {
			require.NoError(t, errs[i])
			require.Equal(t, "rf_1", drain(t, resp))
		}
		require.Len(t, srv.Requests(), 1)
	})
}

// The twin: eight operations are eight flights.
func TestEightOperationsSendEightRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, slow(time.Second))
		client := connect(t, srv.Transport(), redo.WithStore(openStore(t)))
		start := time.Now()
		responses, errs := together(t, 8, client, func(i int) *http.Request {
			return named(t, srv, "op"+string(rune('0'+i)), payment)
		})
		for i, resp := range responses {
			require.NoError(t, errs[i])
			drain(t, resp)
		}
		require.Len(t, srv.Requests(), 8)
		require.Equal(t, time.Second, time.Since(start), "no operation waits for another")
	})
}

// The gateway finds its report in the context of the response's request.
func TestAllWaitersGetTheFailureWithTheirOwnRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptEach(servertest.DelayInHandler(time.Second)),
			servertest.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, "no such charge", http.StatusUnprocessableEntity)
			})))
		client := connect(t, srv.Transport(), redo.WithStore(openStore(t)))
		type caller struct{}
		_, errs := together(t, 8, client, func(i int) *http.Request {
			req := named(t, srv, "op", payment)
			return req.WithContext(context.WithValue(req.Context(), caller{}, i))
		})
		for i, err := range errs {
			e := failure(t, err)
			require.Equal(t, i, e.Response.Request.Context().Value(caller{}))
			require.Equal(t, e.Key, redo.KeyOf(e.Response))
		}
		require.Len(t, srv.Requests(), 1)
	})
}

func TestAllWaitersGetTheFailureWithABodyOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.DelayInHandler(time.Second)),
			servertest.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, "no such charge", http.StatusUnprocessableEntity)
			})))
		client := connect(t, srv.Transport(), redo.WithStore(openStore(t)))
		_, errs := together(t, 8, client, func(int) *http.Request { return named(t, srv, "op", payment) })
		first := failure(t, errs[0])
		for _, err := range errs {
			e := failure(t, err)
			require.Equal(t, []any{first.Code, 422, redo.NotApplied, first.Key},
				[]any{e.Code, e.StatusCode, e.Effect, e.Key})
			require.Equal(t, "no such charge\n", drain(t, e.Response), "each caller reads the body from its beginning")
		}
		require.Len(t, srv.Requests(), 1)

		// The twin: a call after the flight's end is a new call.
		fail(t, client, named(t, srv, "op", payment))
		require.Len(t, srv.Requests(), 2)
	})
}

func TestABodyThatIsCutOffIsCutOffForWaitersToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, tail := range map[string]int{"whole": 0, "cut off": 1} {
			send := make(chan struct{})
			rt := tripper(func(r *http.Request) (*http.Response, error) {
				<-send
				resp := answer(r, http.StatusUnprocessableEntity, "no such charge")
				if tail > 0 {
					resp.Body = io.NopCloser(io.MultiReader(strings.NewReader("no such"), cutOff{}))
				}
				return resp, nil
			})
			client := connect(t, rt, redo.WithStore(openStore(t)))
			var group sync.WaitGroup
			for range 2 {
				group.Go(func() {
					req := post(t, redo.WithOperation(t.Context(), "op "+name), "http://api.test/", payment)
					resp, err := client.Transport().RoundTrip(req)
					if err != nil {
						t.Errorf("%s: %v", name, err)
						return
					}
					_, err = io.ReadAll(resp.Body)
					if (err != nil) != (tail > 0) {
						t.Errorf("%s: reading the body: %v", name, err)
					}
				})
			}
			synctest.Wait()
			close(send)
			group.Wait()
		}
	})
}

func TestAWaiterDoesNotTakeTheHeadOfALongBodyForAllOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("x", 100<<10)
		client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			return answer(r, http.StatusUnprocessableEntity, long), nil
		}), redo.WithStore(openStore(t)))
		var whole, cut atomic.Int32
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				req := post(t, redo.WithOperation(t.Context(), "op"), "http://api.test/", payment)
				resp, err := client.Transport().RoundTrip(req)
				if err != nil {
					t.Error(err)
					return
				}
				switch b, err := io.ReadAll(resp.Body); {
				case err == nil && string(b) == long:
					whole.Add(1)
				case errors.Is(err, io.ErrUnexpectedEOF) && strings.HasPrefix(long, string(b)):
					cut.Add(1)
				default:
					t.Errorf("%d bytes: %v", len(b), err)
				}
			})
		}
		group.Wait()
		require.Equal(t, []int32{1, 2}, []int32{whole.Load(), cut.Load()}, "the first caller has it all")
	})
}

// A cutOff is the rest of a body whose connection broke.
type cutOff struct{}

func (cutOff) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestAWaiterWithAnotherPayloadGetsAMismatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, slow(time.Second))
		client := connect(t, srv.Transport(), redo.WithStore(openStore(t)))
		_, errs := together(t, 8, client, func(i int) *http.Request {
			if i == 0 {
				time.Sleep(time.Millisecond) // it comes second
				return named(t, srv, "op", `{"amount":1}`)
			}
			return named(t, srv, "op", payment)
		})
		e := failure(t, errs[0])
		require.Equal(t, taxonomy.PayloadMismatch, e.Code)
		require.Empty(t, e.Attempts)
		for _, err := range errs[1:] {
			require.NoError(t, err)
		}
		require.Len(t, srv.Requests(), 1)
	})
}

func TestAWaiterWithAnotherPayloadDoesNotGetTheFirstOnesFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProvider(http.StatusServiceUnavailable, time.Second)
		client := connect(t, p, redo.WithStore(openStore(t)), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}))
		_, errs := together(t, 3, client, func(i int) *http.Request {
			body := payment
			if i == 0 {
				time.Sleep(time.Millisecond) // it comes last
				body = `{"amount":1}`
			}
			return post(t, redo.WithOperation(t.Context(), "op"), "http://api.test/op", body)
		})
		require.Equal(t, taxonomy.PayloadMismatch, redo.CodeOf(errs[0]))
		require.Equal(t, taxonomy.Unavailable, redo.CodeOf(errs[1]))
		require.Equal(t, taxonomy.Unavailable, redo.CodeOf(errs[2]))
		require.Len(t, p.came["op"], 1)
	})
}

func TestAWaiterWhoseContextEndsStopsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, slow(5*time.Second))
		client := connect(t, srv.Transport(), redo.WithStore(openStore(t)))
		start := time.Now()
		var group sync.WaitGroup
		group.Go(func() {
			resp, err := client.Do(named(t, srv, "op", payment))
			if err != nil {
				t.Errorf("the first caller: %v", err)
				return
			}
			drain(t, resp)
		})
		synctest.Wait()
		ctx, cancel := context.WithTimeout(redo.WithOperation(t.Context(), "op"), time.Second)
		defer cancel()
		e := fail(t, client, post(t, ctx, srv.URL+"/refunds", payment))
		require.Equal(t, time.Second, time.Since(start))
		require.Equal(t, taxonomy.CallerDeadline, e.Code)
		require.Equal(t, redo.EffectUnknown, e.Effect, "the flight that it waited for may have the effect")
		require.True(t, redo.SafeToRetry(e))
		group.Wait()
		require.Equal(t, 5*time.Second, time.Since(start), "the first caller is not disturbed")
		require.Len(t, srv.Requests(), 1)
	})
}

func TestAFirstCallerWhoGivesUpLetsTheNextOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.Delay(time.Hour)))
		client := connect(t, srv.Transport(), redo.WithStore(openStore(t)))
		ctx, cancel := context.WithCancel(redo.WithOperation(t.Context(), "op"))
		var group sync.WaitGroup
		group.Go(func() {
			_, err := client.Do(post(t, ctx, srv.URL+"/refunds", payment))
			if redo.CodeOf(err) != taxonomy.CallerCanceled {
				t.Errorf("the first caller: %v", err)
			}
		})
		synctest.Wait()
		group.Go(func() {
			resp, err := client.Do(named(t, srv, "op", payment))
			if err != nil {
				t.Errorf("the second caller: %v", err)
				return
			}
			drain(t, resp)
		})
		synctest.Wait()
		require.Len(t, srv.Requests(), 1, "the second caller waits")
		cancel()
		group.Wait()
		sent := keys(srv)
		require.Len(t, sent, 2)
		require.Equal(t, sent[0], sent[1])
		require.Equal(t, 1, srv.Ledger().Total())
	})
}

// Credentials, a given key and Resume are the caller's own, and no part of the payload.
func TestAFailureThatIsTheFirstCallersAloneIsNotShared(t *testing.T) {
	for name, c := range map[string]struct {
		settled bool
		first   func(c *redo.Client, op redo.Operation, req *http.Request) error
		code    taxonomy.Code
	}{
		"refused credentials": {false, func(c *redo.Client, _ redo.Operation, req *http.Request) error {
			req.Header.Set("Authorization", "Bearer expired")
			_, err := c.Do(req)
			return err
		}, taxonomy.Unauthenticated},
		"another key": {false, func(c *redo.Client, _ redo.Operation, req *http.Request) error {
			_, err := c.Do(req.WithContext(redo.WithKey(req.Context(), "another")))
			return err
		}, taxonomy.InvalidOperation},
		"a Resume of an operation that starts anew": {true, func(c *redo.Client, op redo.Operation, _ *http.Request) error {
			_, err := c.Resume(context.Background(), op)
			return err
		}, taxonomy.InvalidOperation},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up := false
				client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
					switch {
					case !up:
						return answer(r, http.StatusServiceUnavailable, ""), nil
					case r.Header.Get("Authorization") != "":
						return answer(r, http.StatusUnauthorized, ""), nil
					}
					return answer(r, http.StatusOK, "rf_1"), nil
				}), redo.WithStore(&slowStore{Store: openStore(t), wait: time.Second}), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1}))
				req := func() *http.Request {
					return post(t, redo.WithOperation(t.Context(), "op"), "http://api.test/refunds", payment)
				}
				fail(t, client, req())
				op := lookUp(t, client, "op")
				if c.settled {
					found := redo.Finding{Effect: redo.NotApplied, Evidence: "no such refund", By: "amira"}
					require.NoError(t, client.Settle(t.Context(), "op", found))
				}
				up = true
				var group sync.WaitGroup
				var first error
				group.Go(func() { first = c.first(client, op, req()) })
				synctest.Wait()
				_, body := succeed(t, client, req())
				require.Equal(t, "rf_1", body)
				group.Wait()
				require.Equal(t, c.code, failure(t, first).Code)
			})
		})
	}
}

func TestAPanicInTheTransportFreesTheFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
			if calls.Add(1) == 1 {
				panic("a fault in the transport")
			}
			return answer(r, http.StatusCreated, "rf_1"), nil
		}), redo.WithStore(openStore(t)))
		req := func() *http.Request {
			return post(t, redo.WithOperation(t.Context(), "op"), "http://api.test/", payment)
		}
		require.PanicsWithValue(t, "a fault in the transport", func() { _, _ = client.Do(req()) })
		resp, body := succeed(t, client, req())
		require.Equal(t, "rf_1", body)
		require.NotEmpty(t, redo.KeyOf(resp))
		require.Equal(t, int32(2), calls.Load())
	})
}

// It would wait for itself.
func TestACallWithinAnAttemptOfItsOwnOperationDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t)
		var client *redo.Client
		var inner *http.Response
		client = connect(t, tripper(func(r *http.Request) (*http.Response, error) {
			if inner == nil {
				inner = new(http.Response)
				inner, _ = succeed(t, client, named(t, srv, "op", payment).WithContext(r.Context()))
			}
			return srv.Transport().RoundTrip(r)
		}), redo.WithStore(openStore(t)))
		outer, _ := succeed(t, client, named(t, srv, "op", payment))
		require.Equal(t, redo.KeyOf(outer), redo.KeyOf(inner))
		require.Equal(t, 1, srv.Ledger().Total())
	})
}
