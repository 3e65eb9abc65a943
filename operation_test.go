package redo

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

func TestCheckOperation(t *testing.T) {
	for _, c := range []struct{ name, operation, want string }{
		{"one byte", "a", ""},
		{"any text", "refund:ch_9ab:1000 – Müller/№ 1 ✓", ""},
		{"spaces", "  ", ""},
		{"the longest", strings.Repeat("n", MaxOperation), ""},
		{"empty", "", "redo: the operation's name is empty"},
		{"too long", strings.Repeat("n", MaxOperation+1), `redo: the operation's name has 513 bytes, at most 512 are allowed: "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"…`},
		{"too long in bytes", strings.Repeat("ü", 257), `redo: the operation's name has 514 bytes, at most 512 are allowed: "üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü"…`},
		{"not UTF-8", "a\xff", `redo: the operation's name "a\xff" is not UTF-8`},
		{"a line break", "a\nb", `redo: the operation's name "a\nb" has the control character U+000A at byte 1`},
		{"a zero byte", "\x00", `redo: the operation's name "\x00" has the control character U+0000 at byte 0`},
		{"DEL", "ü\x7f", `redo: the operation's name "ü\x7f" has the control character U+007F at byte 2`},
		{"a control character beyond ASCII", "a\u0085", `redo: the operation's name "a\u0085" has the control character U+0085 at byte 1`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := checkOperation(c.operation); c.want == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, c.want)
			}
		})
	}
}

func TestContextsNameOperationsAndKeys(t *testing.T) {
	ctx := t.Context()
	require.Equal(t, intent{}, intentOf(ctx))
	named := WithOperation(ctx, "refund:1")
	require.Equal(t, intent{name: "refund:1", named: true}, intentOf(named))
	both := WithKey(named, "k1")
	require.Equal(t, intent{name: "refund:1", named: true, key: "k1", hasKey: true}, intentOf(both))
	require.Equal(t, intent{name: "refund:2", named: true, key: "k1", hasKey: true}, intentOf(WithOperation(both, "refund:2")), "the latest name counts")
	require.Equal(t, intent{name: "refund:1", named: true}, intentOf(named), "a context is not changed by those made from it")
	require.Equal(t, intent{named: true}, intentOf(WithOperation(ctx, "")), "an empty name is a name, and refused later")
}

// build makes a request for plan.
func build(t *testing.T, ctx context.Context, method string, keys ...string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, bank.String(), nil)
	require.NoError(t, err)
	if keys != nil {
		req.Header["Idempotency-Key"] = keys
	}
	return req
}

func TestPlan(t *testing.T) {
	client, err := New(WithTransport(&scripted{}))
	require.NoError(t, err)
	ctx := t.Context()
	name, key := WithOperation(ctx, "refund:1"), WithKey(ctx, "k1")
	both := WithKey(name, "k1")
	for _, c := range []struct {
		name string
		req  *http.Request
		want operation
		code taxonomy.Code
		err  string
	}{
		{"nothing is asked for", build(t, ctx, "POST"), operation{}, "", ""},
		{"a name", build(t, name, "POST"), operation{name: "refund:1"}, "", ""},
		{"a key", build(t, key, "POST"), operation{key: "k1", fixedKey: true}, "", ""},
		{"a name and a key", build(t, both, "DELETE"), operation{name: "refund:1", key: "k1", fixedKey: true}, "", ""},
		{"a key in the request's own header", build(t, name, "POST", "k2"), operation{name: "refund:1", key: "k2", fixedKey: true}, "", ""},
		{"a quoted key in the header", build(t, ctx, "POST", `"k2"`), operation{key: "k2", fixedKey: true}, "", ""},
		{"the context's key wins over the header's", build(t, key, "POST", "k2"), operation{key: "k1", fixedKey: true}, "", ""},
		{"the context's key wins over a bad header", build(t, key, "POST", ""), operation{key: "k1", fixedKey: true}, "", ""},
		{"safe methods have no operation", build(t, both, "GET", "k2"), operation{}, "", ""},
		{"safe methods don't mind a bad name", build(t, WithOperation(ctx, ""), "HEAD"), operation{}, "", ""},

		{"an empty name", build(t, WithOperation(ctx, ""), "POST"), operation{}, taxonomy.InvalidOperation, "redo: the operation's name is empty"},
		{"an empty key", build(t, WithKey(ctx, ""), "POST"), operation{}, taxonomy.KeyMalformed, "redo: wire: malformed idempotency key: it is empty"},
		{"a key beyond ASCII", build(t, WithKey(ctx, "kü"), "POST"), operation{}, taxonomy.KeyMalformed, "redo: wire: malformed idempotency key: byte 1 is 0xC3, only printable ASCII (0x20 to 0x7E) is allowed"},
		{"an empty header", build(t, ctx, "POST", ""), operation{}, taxonomy.KeyMalformed, "redo: the request's own Idempotency-Key header: wire: malformed idempotency key: it is empty"},
		{"two keys in the header", build(t, ctx, "POST", "k1", "k2"), operation{}, taxonomy.KeyMalformed, "redo: the request's own Idempotency-Key header: wire: malformed idempotency key: two different keys were sent, \"k1\" and \"k2\""},
	} {
		t.Run(c.name, func(t *testing.T) {
			op, e := client.plan(c.req)
			if c.err == "" {
				require.Nil(t, e)
				require.Equal(t, c.want, op)
				return
			}
			require.EqualError(t, e.Err, c.err)
			require.Equal(t, c.code, e.Code)
			require.Equal(t, NotApplied, e.Effect)
			require.False(t, SafeToRetry(e))
		})
	}
	t.Run("a request that follows a redirect has no operation", func(t *testing.T) {
		req := build(t, both, "POST")
		req.Response = &http.Response{}
		op, e := client.plan(req)
		require.Nil(t, e)
		require.Equal(t, operation{}, op)
		require.False(t, client.wantsKey(op, req))
	})
}

func TestWhoGetsAKey(t *testing.T) {
	for _, c := range []struct {
		name    string
		method  string
		op      operation
		options []Option
		want    bool
	}{
		{"POST", "POST", operation{}, nil, true},
		{"PATCH", "PATCH", operation{}, nil, true},
		{"PUT is idempotent by itself", "PUT", operation{}, nil, false},
		{"DELETE is idempotent by itself", "DELETE", operation{}, nil, false},
		{"PUT with a name", "PUT", operation{name: "n"}, nil, true},
		{"DELETE with a name", "DELETE", operation{name: "n"}, nil, true},
		{"GET never", "GET", operation{name: "n"}, nil, false},
		{"one that has a key", "POST", operation{key: "k", fixedKey: true}, nil, false},
		{"nobody without a maker", "POST", operation{name: "n"}, []Option{WithKeys(nil)}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, err := New(append(c.options, WithTransport(&scripted{}))...)
			require.NoError(t, err)
			require.Equal(t, c.want, client.wantsKey(c.op, build(t, t.Context(), c.method)))
		})
	}
}

func TestMadeKeysAreCheckedLikeAny(t *testing.T) {
	noEntropy := errors.New("no entropy")
	short := StripeProfile()
	short.MaxKey = 8
	for _, c := range []struct {
		name    string
		keys    KeyFunc
		options []Option
		want    string
	}{
		{"a maker that fails", func(string) (string, error) { return "", noEntropy }, nil, "no entropy"},
		{"an empty key", func(string) (string, error) { return "", nil }, nil, "redo: wire: malformed idempotency key: it is empty"},
		{"a key that is too long", func(string) (string, error) { return strings.Repeat("k", wire.MaxKey+1), nil }, nil, "redo: wire: malformed idempotency key: "},
		{"a key that the profile finds too long", TimeOrderedKeys, []Option{WithProfile(short)}, `redo: the key has 36 characters, profile "stripe" takes at most 8`},
		{"a derived key without an operation", DerivedKeys("live"), nil, "redo: DerivedKeys: the request has no operation to derive a key from: use WithOperation"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rt := &scripted{statuses: []int{200}}
			client, err := New(append(c.options, WithKeys(c.keys), WithTransport(rt))...)
			require.NoError(t, err)
			err = send(t.Context(), t, client)
			require.ErrorIs(t, err, taxonomy.KeyMalformed)
			require.ErrorContains(t, err, c.want)
			require.Zero(t, rt.sent.Load())
		})
	}
}

func TestAKeyIsMadeFromTheOperationsName(t *testing.T) {
	var asked []string
	client, err := New(WithTransport(&scripted{statuses: []int{200}}), WithKeys(func(operation string) (string, error) {
		asked = append(asked, operation)
		return "k" + operation, nil
	}))
	require.NoError(t, err)
	require.NoError(t, send(WithOperation(t.Context(), "refund:1"), t, client))
	require.NoError(t, send(t.Context(), t, client))
	require.Equal(t, []string{"refund:1", ""}, asked, "once for each call")
}

func TestKeyOfAndReplayed(t *testing.T) {
	require.Empty(t, KeyOf(nil))
	require.Empty(t, KeyOf(&http.Response{}))
	require.Empty(t, KeyOf(&http.Response{Request: build(t, t.Context(), "POST", "k1")}), "another client's answer")
	require.False(t, Replayed(nil))
	require.False(t, Replayed(&http.Response{}))
	require.True(t, Replayed(&http.Response{Header: http.Header{"Idempotent-Replayed": {"true"}}}), "anybody's marker counts")

	client, err := New(WithTransport(&scripted{statuses: []int{200}}))
	require.NoError(t, err)
	resp, err := client.Do(build(t, WithKey(t.Context(), "k1"), "POST"))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, "k1", KeyOf(resp))
	require.False(t, Replayed(resp))

	resp, err = client.Do(build(t, WithKey(t.Context(), "k1"), "GET"))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Empty(t, KeyOf(resp))
}
