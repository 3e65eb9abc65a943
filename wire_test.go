package redo_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/profile"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/taxonomy"
)

func TestProfileSaysHowTheKeyIsSent(t *testing.T) {
	custom := redo.RedoProfile()
	custom.Header = "x-request-key"
	custom.TimeoutHeader = ""
	for _, c := range []struct {
		name    string
		profile redo.Profile
		header  string
		want    string
		budget  bool
	}{
		{"redo sends it bare", redo.RedoProfile(), "Idempotency-Key", `k1`, true},
		{"Stripe takes it bare", profile.Stripe, "Idempotency-Key", `k1`, false},
		{"IETF wants a structured-field string", profile.IETF, "Idempotency-Key", `"k1"`, false},
		{"a header of the provider's own", custom, "X-Request-Key", `k1`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t)
				resp, _ := succeed(t, connect(t, srv.Transport(), redo.WithProfile(c.profile)), keyed(t, srv, "k1"))
				got := srv.Requests()[0]
				require.Equal(t, []string{c.want}, got.Header.Values(c.header))
				require.Equal(t, c.budget, got.Header.Get("X-Request-Timeout") != "")
				require.Equal(t, "k1", redo.KeyOf(resp), "the key itself has no quotes")
			})
		})
	}
}

func TestProfileSaysWhatAStatusMeans(t *testing.T) {
	for _, c := range []struct {
		name    string
		profile redo.Profile
		status  int
		code    taxonomy.Code
		retried bool
	}{
		{
			"redo's 409 without a code is a conflict of the resource", redo.RedoProfile(), 409,
			taxonomy.ConflictState, false,
		},
		{"IETF's 409 is a request that still runs", profile.IETF, 409, taxonomy.InFlight, true},
		{"IETF's 422 is another payload", profile.IETF, 422, taxonomy.PayloadMismatch, false},
		{"Stripe's 409 is a request that still runs", profile.Stripe, 409, taxonomy.InFlight, true},
		{"Stripe's 422 is a refusal", profile.Stripe, 422, taxonomy.Unprocessable, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.Script("k1", servertest.Status(c.status)))
				var ends []redo.AttemptEnd
				client := connect(t, srv.Transport(), redo.WithProfile(c.profile),
					redo.WithObserver(&attemptLog{ends: &ends}))
				if c.retried {
					succeed(t, client, keyed(t, srv, "k1"))
				} else {
					require.Equal(t, c.code, fail(t, client, keyed(t, srv, "k1")).Code)
				}
				require.Equal(t, c.code, ends[0].Attempt.Code)
			})
		})
	}
}

func TestShouldRetryDirective(t *testing.T) {
	say := func(status int, header ...string) servertest.Fault { return with(status, header...)() }
	for _, c := range []struct {
		name    string
		profile redo.Profile
		fault   servertest.Fault
		retried bool
	}{
		{"x-should-retry: false ends a 503", redo.RedoProfile(), say(503, "X-Should-Retry", "false"), false},
		{"x-should-retry: true retries a 400", redo.RedoProfile(), say(400, "X-Should-Retry", "true"), true},
		{"Stripe-Should-Retry: false ends a 500", profile.Stripe, say(500, "Stripe-Should-Retry", "false"), false},
		{"Stripe-Should-Retry: true retries a 402", profile.Stripe, say(402, "Stripe-Should-Retry", "true"), true},
		{"another provider's directive is not read", profile.Stripe, say(503, "X-Should-Retry", "false"), true},
		{"a directive that is neither is none", redo.RedoProfile(), say(503, "X-Should-Retry", "maybe"), true},
		{
			"no directive overrides a payload mismatch", redo.RedoProfile(),
			say(409, "X-Should-Retry", "true", "Error-Code", string(taxonomy.PayloadMismatch)), false,
		},
		{
			"nor an expired key", redo.RedoProfile(),
			say(409, "X-Should-Retry", "true", "Error-Code", string(taxonomy.KeyExpired)), false,
		},
		{
			"nor a replay, which will not change", redo.RedoProfile(),
			say(503, "X-Should-Retry", "true", "Idempotent-Replayed", "true"), false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := servertest.NewInMemory(t, servertest.Script("k1", c.fault))
				client := connect(t, srv.Transport(), redo.WithProfile(c.profile))
				if c.retried {
					succeed(t, client, keyed(t, srv, "k1"))
					return
				}
				e := fail(t, client, keyed(t, srv, "k1"))
				require.Len(t, e.Attempts, 1)
				require.False(t, redo.SafeToRetry(e))
			})
		})
	}
	t.Run("nor the rule for keyless requests", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv := servertest.NewInMemory(t, servertest.Script("", say(503, "X-Should-Retry", "true")))
			e := fail(t, connect(t, srv.Transport(), redo.WithKeys(nil)), post(t, t.Context(), srv.URL, payment))
			require.ErrorIs(t, e, redo.ErrKeyless)
		})
	})
}

// A JSON body must not keep a status from being looked at.
func TestErrorsWithAJSONBodyAreRetried(t *testing.T) {
	for _, status := range []int{409, 429, 500, 502, 503, 504} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sent := 0
				client := connect(t, tripper(func(r *http.Request) (*http.Response, error) {
					if sent++; sent == 1 {
						return answer(r, status, `{"error":{"type":"api_error","message":"try again"}}`,
							"Content-Type", "application/json"), nil
					}
					return answer(r, 200, "{}"), nil
				}), redo.WithProfile(profile.Stripe))
				succeed(t, client, post(t, t.Context(), "http://api.test/", payment))
				require.Equal(t, 2, sent)
			})
		})
	}
}

func TestErrorPageOfSomebodyInBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t,
			servertest.Script("retried", servertest.HTMLError(502)),
			servertest.Script("terminal", servertest.HTMLError(403)))
		client := connect(t, srv.Transport())
		succeed(t, client, keyed(t, srv, "retried"))
		e := fail(t, client, keyed(t, srv, "terminal"))
		require.Equal(t, taxonomy.Forbidden, e.Code)
		require.False(t, e.Said(), "the code was inferred from the status")
		require.Contains(t, drain(t, e.Response), "<h1>Forbidden</h1>")
		require.NotContains(t, e.Error(), "<h1>")
	})
}

func TestCodeOfAProblemDocumentWinsOverItsStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.Script("k1", servertest.InFlight(0)))
		var ends []redo.AttemptEnd
		client := connect(t, srv.Transport(), redo.WithObserver(&attemptLog{ends: &ends}))
		succeed(t, client, keyed(t, srv, "k1"))
		require.Equal(t, taxonomy.InFlight, ends[0].Attempt.Code)
		require.Equal(t, 409, ends[0].Attempt.Status)
	})
}

func TestKeyIsTheCallersWhereTheCallerHasOne(t *testing.T) {
	for _, c := range []struct {
		name   string
		header []string
		key    string // WithKey
		want   string
	}{
		{"from WithKey", nil, "k1", "k1"},
		{"from the request's header", []string{"k2"}, "", "k2"},
		{"from a quoted header, sent in the form of the profile", []string{`"k2"`}, "", "k2"},
		{"the same key on two lines is one key", []string{"k2", `"k2"`}, "", "k2"},
		{"WithKey wins over the header", []string{"k2"}, "k1", "k1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, st := servertest.NewInMemory(t), openStore(t)
				ctx := redo.WithOperation(t.Context(), "op")
				if c.key != "" {
					ctx = redo.WithKey(ctx, c.key)
				}
				req := post(t, ctx, srv.URL, payment)
				if c.header != nil {
					req.Header["Idempotency-Key"] = c.header
				}
				resp, _ := succeed(t, connect(t, srv.Transport(), redo.WithStore(st)), req)
				require.Equal(t, c.want, redo.KeyOf(resp))
				require.Equal(t, []string{c.want}, srv.Requests()[0].Header.Values("Idempotency-Key"))
				require.Equal(t, c.header, req.Header["Idempotency-Key"], "the caller's request is not changed")
				require.Contains(t, string(record(t, st, "op").Meta), `"`+c.want+`"`)
			})
		})
	}
}

func TestPendingOperationUnderAnotherKeyThanTheOneGivenIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.ResetAfterEffect()))
		st := openStore(t)
		e := crash(t, srv, st, named(t, srv, "op", payment))
		req := post(t, redo.WithKey(redo.WithOperation(t.Context(), "op"), "another"), srv.URL+"/refunds", payment)
		refused := fail(t, connect(t, srv.Transport(), redo.WithStore(st)), req)
		require.Equal(t, taxonomy.InvalidOperation, refused.Code)
		require.Equal(t, e.Key, refused.Key)
		require.Equal(t, redo.EffectUnknown, refused.Effect)
		require.Len(t, srv.Requests(), 1)
		require.Equal(t, store.StatePending, record(t, st, "op").State)
	})
}

func TestWhichRequestsGetAKey(t *testing.T) {
	for method, want := range map[string]bool{
		http.MethodPost: true, http.MethodPatch: true,
		http.MethodPut: false, http.MethodDelete: false,
		http.MethodGet: false, http.MethodHead: false, http.MethodOptions: false, http.MethodTrace: false,
	} {
		for _, operation := range []bool{false, true} {
			name := method
			wants := want
			if operation {
				name += " of an operation"
				wants = want || method == http.MethodPut || method == http.MethodDelete
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv, st := servertest.NewInMemory(t), openStore(t)
					ctx := t.Context()
					if operation {
						ctx = redo.WithOperation(ctx, "op")
					}
					req, err := http.NewRequestWithContext(ctx, method, srv.URL, nil)
					require.NoError(t, err)
					if method == http.MethodGet {
						req.Header.Set("Idempotency-Key", "not sent: a safe method never reserves a key")
					}
					resp, _ := succeed(t, connect(t, srv.Transport(), redo.WithStore(st)), req)
					require.Equal(t, wants, srv.Requests()[0].Key != "")
					require.Equal(t, srv.Requests()[0].Key, redo.KeyOf(resp))
					if operation && wants {
						require.Equal(t, store.StateComplete, record(t, st, "op").State)
					} else {
						requireAbsent(t, st, "op")
					}
				})
			})
		}
	}
}

func TestDefaultKeyIsTimeOrdered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t)
		resp, _ := succeed(t, connect(t, srv.Transport()), post(t, t.Context(), srv.URL, payment))
		id, err := uuid.Parse(redo.KeyOf(resp))
		require.NoError(t, err)
		require.Equal(t, uuid.Version(7), id.Version())
	})
}

func TestDerivedKeysNeedNoStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.ResetAfterEffect()))
		once := redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1})
		process := func() *redo.Client {
			return connect(t, srv.Transport(), redo.WithKeys(redo.DerivedKeys("live")), once)
		}
		e := fail(t, process(), named(t, srv, "op", payment))
		require.True(t, redo.SafeToRetry(e), "the name alone gives the key")
		resp, _ := succeed(t, process(), named(t, srv, "op", payment))
		require.Equal(t, e.Key, redo.KeyOf(resp))
		require.True(t, redo.Replayed(resp))
		srv.Ledger().AssertEffects(t, e.Key, 1)

		other, _ := succeed(t, connect(t, srv.Transport(), redo.WithKeys(redo.DerivedKeys("test"))),
			named(t, srv, "op", payment))
		require.NotEqual(t, e.Key, redo.KeyOf(other))

		unnamed := fail(t, process(), post(t, t.Context(), srv.URL, payment))
		require.Equal(t, taxonomy.KeyMalformed, unnamed.Code)
		require.Equal(t, redo.NotApplied, unnamed.Effect)
	})
}

func TestUnknownEffectWithoutAKeyThatLastsIsNotSafeToRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := servertest.NewInMemory(t, servertest.ScriptNext(servertest.ResetAfterEffect()))
		e := fail(t, connect(t, srv.Transport(), redo.WithRetry(redo.RetryPolicy{MaxAttempts: 1})),
			post(t, t.Context(), srv.URL, payment))
		require.Equal(t, redo.EffectUnknown, e.Effect)
		require.False(t, redo.SafeToRetry(e), "the next call would make another key")
	})
}

func TestKeyThatTheProfileIsTooShortForIsRefused(t *testing.T) {
	srv := servertest.NewInMemory(t)
	profile := redo.RedoProfile()
	profile.MaxKey = 64
	client := connect(t, srv.Transport(), redo.WithProfile(profile))
	succeed(t, client, keyed(t, srv, strings.Repeat("k", 64)))
	require.Equal(t, taxonomy.KeyMalformed, fail(t, client, keyed(t, srv, strings.Repeat("k", 65))).Code)
	require.Len(t, srv.Requests(), 1)
}
