package servertest_test

import (
	"io"
	"net/http"
	"syscall"
	"testing"

	"github.com/redo-go/redo/servertest"
	"github.com/stretchr/testify/require"
)

func TestAnswerFaults(t *testing.T) {
	const page = "<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body><h1>Bad " +
		"Gateway</h1></body></html>"
	for _, test := range []struct {
		rule    string
		fault   servertest.Fault
		status  int
		header  map[string]string // an empty value: the field is absent
		body    string            // checked unless empty
		effects int
	}{
		{rule: "OK serves the request", fault: servertest.OK(), status: 201,
			header: map[string]string{"Content-Type": "application/json"}, body: "{\"id\":\"rf_1\"}\n", effects: 1},
		{rule: "OK takes header fields", fault: servertest.OK().With(servertest.Field("X-RateLimit-Reset", "9")),
			status: 201,
			header: map[string]string{"X-RateLimit-Reset": "9", "Content-Type": "application/json"}, effects: 1},
		{rule: "Status responds before the effect", fault: servertest.Status(503), status: 503,
			header: map[string]string{"Content-Type": "text/plain; charset=utf-8", "Retry-After": ""},
			body:   "Service Unavailable"},
		{rule: "Status takes header fields",
			fault:  servertest.Status(503).With(servertest.RetryAfterSeconds(2), servertest.Field("X-Edge", "fra1")),
			status: 503, header: map[string]string{"Retry-After": "2", "X-Edge": "fra1"}},
		{
			rule: "Status 204 has no body", fault: servertest.Status(204), status: 204,
			header: map[string]string{"Content-Length": ""},
		},
		{rule: "StatusAfterEffect responds after the effect", fault: servertest.StatusAfterEffect(502), status: 502,
			header: map[string]string{"Idempotency-Status": ""}, body: "Bad Gateway", effects: 1},
		{rule: "HTMLError is HTML that is labelled as JSON", fault: servertest.HTMLError(502), status: 502,
			header: map[string]string{"Content-Type": "application/json"}, body: page},
		{rule: "Redirect names the location", fault: servertest.Redirect(307, "http://other.test/x"), status: 307,
			header: map[string]string{"Location": "http://other.test/x"}},
		{rule: "InFlight is the contract's 409", fault: servertest.InFlight(1500e6), status: 409,
			header: map[string]string{
				"Content-Type": "application/problem+json", "Retry-After": "2",
				"Error-Code": "CONFLICT.idempotency.in_flight",
			}},
		{
			rule: "InFlight of zero gives no hint", fault: servertest.InFlight(0), status: 409,
			header: map[string]string{"Retry-After": ""},
		},
		{rule: "RateLimited without a hint gives none", fault: servertest.RateLimited(), status: 429,
			header: map[string]string{"Retry-After": "", "Error-Code": "RATE_LIMIT.exceeded"}},
		{rule: "RateLimited sends seconds", fault: servertest.RateLimited(servertest.RetryAfterSeconds(7)), status: 429,
			header: map[string]string{"Retry-After": "7"}},
		{rule: "RateLimited sends any text",
			fault: servertest.RateLimited(servertest.RetryAfterRaw("9223372036854775807")), status: 429,
			header: map[string]string{"Retry-After": "9223372036854775807"}},
		{
			rule: "Duplicate gives the first copy's response", fault: servertest.Duplicate(), status: 201,
			body: "{\"id\":\"rf_1\"}\n", effects: 2,
		},
		{
			rule: "DuplicateAtOnce gives the first copy's response", fault: servertest.DuplicateAtOnce(), status: 201,
			effects: 2,
		},
	} {
		t.Run(test.rule, func(t *testing.T) {
			onBoth(t, func(t *testing.T, start func(testing.TB, ...servertest.Option) *servertest.Server) {
				srv := start(t, servertest.Bare(), servertest.Script("k1", test.fault))
				client := srv.Client()
				client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
				resp, err := post(t, client, srv.URL, "k1")
				require.NoError(t, err)
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				require.Equal(t, test.status, resp.StatusCode)
				for name, value := range test.header {
					require.Equal(t, value, resp.Header.Get(name), name)
				}
				if test.body != "" {
					require.Equal(t, test.body, string(body))
				}
				srv.Ledger().AssertEffects(t, "k1", test.effects)
				require.Equal(t, 1, srv.Ledger().Requests("k1"))
			})
		})
	}
}

func TestConnectionFaults(t *testing.T) {
	for _, test := range []struct {
		rule    string
		fault   servertest.Fault
		err     error
		effects int
	}{
		{"ResetBeforeRead is a RST and makes no effect", servertest.ResetBeforeRead(), syscall.ECONNRESET, 0},
		{"ResetAfterEffect is a RST", servertest.ResetAfterEffect(), syscall.ECONNRESET, 1},
		{"CloseAfterEffect is an end of file", servertest.CloseAfterEffect(), io.EOF, 1},
	} {
		t.Run(test.rule, func(t *testing.T) {
			onBoth(t, func(t *testing.T, start func(testing.TB, ...servertest.Option) *servertest.Server) {
				srv := start(t, servertest.Bare(), servertest.Script("k1", test.fault))
				_, err := post(t, srv.Client(), srv.URL, "k1")
				require.ErrorIs(t, err, test.err)
				srv.Close()
				srv.Ledger().AssertEffects(t, "k1", test.effects)
				require.Equal(t, 1, srv.Ledger().Requests("k1"))
			})
		})
	}
}

func TestTruncatedBody(t *testing.T) {
	const whole = "{\"id\":\"rf_1\"}\n"
	for _, test := range []struct {
		rule     string
		n        int
		promised int64
	}{
		{"no byte of the body is sent", 0, int64(len(whole))},
		{"a part of the body is sent", 5, int64(len(whole))},
		{"the whole body is sent and more is promised", len(whole), int64(len(whole)) + 1},
		{"no more than the body is sent", 100, 101},
	} {
		t.Run(test.rule, func(t *testing.T) {
			onBoth(t, func(t *testing.T, start func(testing.TB, ...servertest.Option) *servertest.Server) {
				srv := start(t, servertest.Bare(), servertest.Script("k1", servertest.TruncatedBody(test.n)))
				resp, err := post(t, srv.Client(), srv.URL, "k1")
				require.NoError(t, err)
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				require.ErrorIs(t, err, io.ErrUnexpectedEOF)
				require.Equal(t, whole[:min(test.n, len(whole))], string(body))
				require.Equal(t, test.promised, resp.ContentLength)
				srv.Ledger().AssertEffects(t, "k1", 1)
			})
		})
	}
}

func TestStaleKeepAlive(t *testing.T) {
	t.Run("net/http resends a keyed request unasked", func(t *testing.T) {
		onBoth(t, func(t *testing.T, start func(testing.TB, ...servertest.Option) *servertest.Server) {
			srv := start(t, servertest.Bare(), servertest.Script("k1", servertest.StaleKeepAlive()),
				servertest.Script("k2", servertest.OK()))
			status, _ := answerTo(t, srv, "k1")
			require.Equal(t, 201, status)
			status, _ = answerTo(t, srv, "k2")
			require.Equal(t, 201, status)

			srv.Ledger().AssertEffects(t, "k2", 1)
			require.Equal(t, 2, srv.Ledger().Requests("k2"), "one Do is two requests")
			sent := srv.Requests()
			require.Equal(t, []int{1, 1, 2}, []int{sent[0].Conn, sent[1].Conn, sent[2].Conn})
			require.Equal(t, []string{"StaleKeepAlive()", "after StaleKeepAlive()", "OK()"},
				[]string{sent[0].Step, sent[1].Step, sent[2].Step})
			require.Equal(t, sent[1].Body, sent[2].Body)
		})
	})
	t.Run("net/http does not resend a request without a key", func(t *testing.T) {
		onBoth(t, func(t *testing.T, start func(testing.TB, ...servertest.Option) *servertest.Server) {
			srv := start(t, servertest.Bare(), servertest.Script("k1", servertest.StaleKeepAlive()))
			status, _ := answerTo(t, srv, "k1")
			require.Equal(t, 201, status)
			_, err := post(t, srv.Client(), srv.URL, "")
			require.ErrorIs(t, err, io.EOF)
			srv.Ledger().AssertEffects(t, "", 0)
		})
	})
}

func TestInvalidFaultEndsTheTest(t *testing.T) {
	for _, test := range []struct {
		opts []servertest.Option
		want string
	}{
		{
			[]servertest.Option{servertest.Script("k1", servertest.Status(99))},
			"servertest: Status(99): the status is 99, it must be in [200, 999]",
		},
		{
			[]servertest.Option{servertest.ScriptNext(servertest.Redirect(200, "/"))},
			`servertest: Redirect(200, "/"): the status is 200, a redirect's is in [300, 399]`,
		},
		{
			[]servertest.Option{servertest.Script("k1", servertest.Redirect(302, "/\r\n"))},
			`servertest: Redirect(302, "/\r\n"): the location contains a line break`,
		},
		{
			[]servertest.Option{servertest.ScriptEach(servertest.Delay(-1))},
			"servertest: Delay(-1ns): the duration is -1ns, it must not be negative",
		},
		{
			[]servertest.Option{servertest.Script("k1", servertest.TruncatedBody(-1))},
			"servertest: TruncatedBody(-1): the number of bytes is -1, it must not be negative",
		},
		{
			[]servertest.Option{servertest.Script("k1", servertest.Fault{})},
			"servertest: a script contains the zero Fault; take one of the constructors",
		},
		{
			[]servertest.Option{servertest.Script("k1", servertest.OK().With(servertest.Field("X Part", "1")))},
			`servertest: Field("X Part", "1"): "X Part" is no header name (RFC 9110 section 5.6.2)`,
		},
		{
			[]servertest.Option{servertest.Script("k1", servertest.OK().With(servertest.Field("", "1")))},
			`servertest: Field("", "1"): "" is no header name (RFC 9110 section 5.6.2)`,
		},
		{
			[]servertest.Option{servertest.Script("k1", servertest.RateLimited(servertest.Field("content-length", "9")))},
			`servertest: Field("content-length", "9"): the server sets Content-Length itself`,
		},
		{
			[]servertest.Option{servertest.Script("k1", servertest.Status(503).With(
				servertest.Field("X-Edge", "fra1"), servertest.Field("Transfer-Encoding", "gzip")))},
			`servertest: Field("Transfer-Encoding", "gzip"): the server sets Transfer-Encoding itself`,
		},
		{
			[]servertest.Option{servertest.Script("k1", servertest.OK().With(servertest.Field("Connection", "x")))},
			`servertest: Field("Connection", "x"): the server sets Connection itself`,
		},
		{
			[]servertest.Option{servertest.Script("k1", servertest.RateLimited(servertest.RetryAfterRaw("1\r\nX: 2")))},
			`servertest: RetryAfterRaw("1\r\nX: 2"): the value contains a line break`,
		},
		{[]servertest.Option{servertest.Handler(nil)}, "servertest: Handler: the handler is nil"},
		{[]servertest.Option{servertest.Principal(nil)}, "servertest: Principal: the function is nil"},
		{[]servertest.Option{servertest.Guard(nil)}, "servertest: Guard: the function is nil"},
		{
			[]servertest.Option{servertest.Bare(), servertest.Script("k1", servertest.StoreFailsAtReserve())},
			"servertest: a script makes the store fail, and a Bare server has no store",
		},
	} {
		t.Run(test.want, func(t *testing.T) {
			onBoth(t, func(t *testing.T, start func(testing.TB, ...servertest.Option) *servertest.Server) {
				fake := newFakeTB(t)
				require.Nil(t, start(fake, test.opts...))
				require.Equal(t, test.want, fake.fatal)
			})
		})
	}
}
