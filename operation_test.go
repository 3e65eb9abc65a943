package redo

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/store/memstore"
	"github.com/redo-go/redo/taxonomy"
)

func TestContextsNameOperationsAndKeys(t *testing.T) {
	ctx := t.Context()
	require.Equal(t, intent{}, intentOf(ctx))
	named := WithOperation(ctx, "refund:1")
	require.Equal(t, intent{name: "refund:1", named: true}, intentOf(named))
	both := WithKey(named, "k1")
	require.Equal(t, intent{name: "refund:1", named: true, key: "k1", hasKey: true}, intentOf(both))
	require.Equal(t, intent{name: "refund:2", named: true, key: "k1", hasKey: true},
		intentOf(WithOperation(both, "refund:2")),
		"the latest name counts")
	require.Equal(t, intent{name: "refund:1", named: true}, intentOf(named),
		"a context is not changed by those made from it")
	require.Equal(t, intent{named: true}, intentOf(WithOperation(ctx, "")),
		"an empty name is a name, and refused later")
}

func TestPlan(t *testing.T) {
	ctx := t.Context()
	name, key := WithOperation(ctx, "refund:1"), WithKey(ctx, "k1")
	both := WithKey(name, "k1")
	stored := WithStore(memstore.New())
	keep := WithProfile(Profile{Name: "acme", KeepRequestKey: true})
	fixed := WithKeys(func(string) (string, error) { return "k9", nil })
	only := func(method string) context.Context {
		return WithOperationFor(ctx, "refund:1", func(r *http.Request) bool { return r.Method == method })
	}
	given := operation{key: "k1", given: true, lasting: true}
	named := operation{name: "refund:1", stored: true}
	namedGiven := operation{name: "refund:1", key: "k1", given: true, stored: true, lasting: true}
	for _, c := range []struct {
		name    string
		req     *http.Request
		options []Option
		want    operation
	}{
		{"a key", build(t, key, "POST"), nil, given},
		{"a key for any method", build(t, key, "DELETE"), nil, given},
		{"a name in the store has its key there", build(t, name, "POST"), []Option{stored}, named},
		{"a name and a key", build(t, both, "PUT"), []Option{stored}, namedGiven},
		{
			"a name and a key without a store", build(t, both, "POST"), nil,
			operation{name: "refund:1", key: "k1", given: true, lasting: true},
		},
		{
			"a name that gives the key", build(t, name, "POST"), []Option{fixed},
			operation{name: "refund:1", key: "k9", lasting: true},
		},
		{"the context's key wins over the maker's", build(t, key, "POST"), []Option{fixed}, given},

		{"a key in the request's own header", build(t, ctx, "POST", "k2"), nil, operation{key: "k2"}},
		{"a quoted key in the header", build(t, ctx, "POST", `"k2"`), nil, operation{key: "k2"}},
		{"one key on two lines", build(t, ctx, "POST", "k2", `"k2"`), nil, operation{key: "k2"}},
		{"the context's key wins over the header's", build(t, key, "POST", "k2"), nil, given},
		{"the context's key wins over a bad header", build(t, key, "POST", ""), nil, given},
		{
			"a caller's own header gives the operation's key", build(t, name, "POST", "k2"), []Option{stored},
			operation{name: "refund:1", key: "k2", given: true, stored: true, lasting: true},
		},
		{"the context's key wins even then", build(t, both, "POST", "k2"), []Option{stored, keep}, namedGiven},

		{"a name for another request", build(t, only("PUT"), "POST", "k2"), []Option{stored}, operation{key: "k2"}},
		{"a name for this request", build(t, only("POST"), "POST"), []Option{stored}, named},
		{"safe methods have no operation", build(t, both, "GET", "k2"), []Option{stored}, operation{}},
		{"QUERY is safe", build(t, both, "QUERY"), []Option{stored}, operation{}},
		{"safe methods don't mind a bad name", build(t, WithOperation(ctx, ""), "HEAD"), nil, operation{}},
		{"safe methods don't mind a name without effect", build(t, name, "GET"), nil, operation{}},
		{
			"a key for another request", build(t, WithKey(only("PUT"), "k1"), "POST"), []Option{fixed},
			operation{key: "k9", fresh: true},
		},
		{
			"a name and a key for this request", build(t, WithKey(only("POST"), "k1"), "POST"), []Option{stored},
			namedGiven,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			op, e := open(t, append(c.options, WithTransport(&scripted{}))...).plan(c.req, intentOf(c.req.Context()),
				modeDo)
			require.Nil(t, e)
			require.Equal(t, c.want, op)
		})
	}
	t.Run("an operation's key replaces the one that an SDK sets", func(t *testing.T) {
		op, e := open(t, stored).plan(build(t, name, "POST", "k2"), intentOf(name), modeTransport)
		require.Nil(t, e)
		require.Equal(t, named, op)
		_, e = open(t, stored).plan(build(t, name, "POST", ""), intentOf(name), modeTransport)
		require.Equal(t, taxonomy.KeyMalformed, e.Code, "a malformed header is refused all the same")
	})
	t.Run("an SDK's key is kept if the profile requires it", func(t *testing.T) {
		op, e := open(t, stored, keep).plan(build(t, name, "POST", "k2"), intentOf(name), modeTransport)
		require.Nil(t, e)
		require.Equal(t, operation{name: "refund:1", key: "k2", stored: true}, op)
	})
	t.Run("a request that follows a redirect has no operation", func(t *testing.T) {
		req := build(t, both, "POST")
		req.Response = &http.Response{}
		op, e := open(t, stored).plan(req, intentOf(both), modeTransport)
		require.Nil(t, e)
		require.Equal(t, operation{}, op)
	})
}

func TestPlanRefuses(t *testing.T) {
	ctx := t.Context()
	name := WithOperation(ctx, "refund:1")
	keep := WithProfile(Profile{Name: "acme", KeepRequestKey: true})
	noKeys := WithProfile(Profile{Name: "acme", NoKeys: true})
	const noEffect = "redo: the operation's name has no effect: use WithStore, DerivedKeys or WithKey"
	const twoKeys = "redo: the request's Idempotency-Key header: malformed idempotency key: " +
		`two different keys were sent, "k1" and "k2"`
	for _, c := range []struct {
		name    string
		req     *http.Request
		options []Option
		code    taxonomy.Code
		err     string
	}{
		{
			"an empty name", build(t, WithOperation(ctx, ""), "POST"), nil, taxonomy.InvalidOperation,
			"redo: the operation's name is empty",
		},
		{"a name without effect", build(t, name, "POST"), nil, taxonomy.InvalidOperation, noEffect},
		{
			"a name without effect, with random keys", build(t, name, "POST"), []Option{WithKeys(RandomKeys)},
			taxonomy.InvalidOperation, noEffect,
		},
		{
			"a name in an API without keys", build(t, name, "POST"), []Option{WithStore(memstore.New()), noKeys},
			taxonomy.InvalidOperation,
			`redo: profile "acme" has no idempotency keys: a name or WithKey has no effect`,
		},
		{
			"a key in an API without keys", build(t, WithKey(ctx, "k1"), "POST"), []Option{noKeys},
			taxonomy.InvalidOperation, `redo: profile "acme" has no idempotency keys: a name or WithKey has no effect`,
		},
		{
			"a name that nothing makes a key for", build(t, name, "POST"), []Option{WithKeys(nil)}, taxonomy.KeyMissing,
			"redo: the operation has no key: WithKeys(nil) leaves it to WithKey",
		},
		{
			"an empty key", build(t, WithKey(ctx, ""), "POST"), nil, taxonomy.KeyMalformed,
			"redo: malformed idempotency key: it is empty",
		},
		{
			"a key beyond ASCII", build(t, WithKey(ctx, "kü"), "POST"), nil, taxonomy.KeyMalformed,
			"redo: malformed idempotency key: byte 1 is 0xC3, only printable ASCII (0x20 to 0x7E) is allowed",
		},
		{
			"a key that the profile finds too long", build(t, WithKey(ctx, strings.Repeat("k", 37)), "POST"),
			[]Option{WithProfile(Profile{Name: "acme", MaxKey: 36})}, taxonomy.KeyMalformed,
			`redo: the key has 37 characters, profile "acme" takes at most 36`,
		},
		{
			"an empty header", build(t, ctx, "POST", ""), nil, taxonomy.KeyMalformed,
			"redo: the request's Idempotency-Key header: malformed idempotency key: it is empty",
		},
		{"two keys in the header", build(t, ctx, "POST", "k1", "k2"), nil, taxonomy.KeyMalformed, twoKeys},
		{
			"two keys in a header that is kept", build(t, name, "POST", "k1", "k2"), []Option{keep},
			taxonomy.KeyMalformed, twoKeys,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			rt := &scripted{statuses: []int{200}}
			_, err := open(t, append(c.options, WithTransport(rt))...).Do(c.req)
			e, ok := errors.AsType[*Error](err)
			require.True(t, ok, "%v", err)
			require.EqualError(t, e.Err, c.err)
			require.Equal(t, c.code, e.Code)
			want := NotApplied
			if c.name == "a key in an API without keys" {
				want = EffectUnknown // a client with another profile may have sent it
			}
			require.Equal(t, want, e.Effect)
			require.False(t, SafeToRetry(e))
			require.Empty(t, e.Attempts)
			require.Zero(t, rt.sent.Load())
		})
	}
}

func TestWhoGetsAKey(t *testing.T) {
	named := func(ctx context.Context) context.Context { return WithOperation(ctx, "refund:1") }
	derived := WithKeys(DerivedKeys("live"))
	for _, c := range []struct {
		name    string
		method  string
		mode    mode
		ctx     func(context.Context) context.Context
		options []Option
		want    bool
	}{
		{"POST", "POST", modeDo, nil, nil, true},
		{"PATCH", "PATCH", modeDo, nil, nil, true},
		{"POST of a Call", "POST", modeCall, nil, nil, true},
		{"PUT is idempotent without a key", "PUT", modeDo, nil, nil, false},
		{"DELETE is idempotent without a key", "DELETE", modeDo, nil, nil, false},
		{"a method of the caller's own", "REFUND", modeDo, nil, nil, false},
		{"a method in lower case is another method", "post", modeDo, nil, nil, false},
		{
			"a method that the profile names", "PUT", modeDo, nil,
			[]Option{WithProfile(Profile{Methods: []string{"PUT"}})}, true,
		},
		{
			"a method that the profile does not name", "POST", modeDo, nil,
			[]Option{WithProfile(Profile{Methods: []string{"PUT"}})}, false,
		},
		{
			"no method, if the profile names none", "POST", modeDo, nil,
			[]Option{WithProfile(Profile{Methods: []string{}})}, false,
		},
		{"PUT with a name", "PUT", modeDo, named, []Option{derived}, true},
		{"DELETE with a name", "DELETE", modeDo, named, []Option{derived}, true},
		{"GET never", "GET", modeDo, named, []Option{derived}, false},
		{"no key without a maker", "POST", modeDo, nil, []Option{WithKeys(nil)}, false},
		{"no key in an API without keys", "POST", modeDo, nil, []Option{WithProfile(Profile{NoKeys: true})}, false},
		{
			"no key where the key is in the payload", "POST", modeDo, nil,
			[]Option{WithProfile(Profile{KeyInBody: true})}, false,
		},
		{
			"a name where the key is in the payload", "POST", modeDo, named,
			[]Option{derived, WithProfile(Profile{KeyInBody: true})}, true,
		},

		{"no key under an SDK", "POST", modeTransport, nil, nil, false},
		{
			"POST under an SDK whose server honours keys", "POST", modeTransport, nil,
			[]Option{WithProfile(RedoProfile())}, true,
		},
		{
			"POST under an SDK with keys of the caller's", "POST", modeTransport, nil, []Option{WithKeys(RandomKeys)},
			true,
		},
		{
			"PUT under an SDK whose server honours keys", "PUT", modeTransport, nil,
			[]Option{WithProfile(RedoProfile())}, false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := t.Context()
			if c.ctx != nil {
				ctx = c.ctx(ctx)
			}
			op, e := open(t, c.options...).plan(build(t, ctx, c.method), intentOf(ctx), c.mode)
			require.Nil(t, e)
			require.Equal(t, c.want, op.key != "")
		})
	}
}

func TestMadeKeysAreCheckedLikeAny(t *testing.T) {
	noEntropy := errors.New("no entropy")
	short := WithProfile(Profile{Name: "acme", MaxKey: 8})
	for _, c := range []struct {
		name    string
		keys    KeyFunc
		options []Option
		want    string
	}{
		{"a maker that fails", func(string) (string, error) { return "", noEntropy }, nil, "no entropy"},
		{
			"an empty key", func(string) (string, error) { return "", nil }, nil,
			"redo: malformed idempotency key: it is empty",
		},
		{
			"a key that is too long", func(string) (string, error) { return strings.Repeat("k", wire.MaxKey+1), nil },
			nil,
			"redo: malformed idempotency key: ",
		},
		{
			"a key that the profile finds too long", TimeOrderedKeys, []Option{short},
			`redo: the key has 36 characters, profile "acme" takes at most 8`,
		},
		{
			"a derived key without an operation", DerivedKeys("live"), nil,
			"redo: DerivedKeys: the request has no operation to derive a key from: use WithOperation",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			rt := &scripted{statuses: []int{200}}
			err := send(t.Context(), t, open(t, append(c.options, WithKeys(c.keys), WithTransport(rt))...))
			require.ErrorIs(t, err, taxonomy.KeyMalformed)
			require.ErrorContains(t, err, c.want)
			require.Zero(t, rt.sent.Load())
		})
	}
}

// A name without a store needs a key that the name alone gives. A second question finds out.
func TestAKeyIsMadeFromTheOperationsName(t *testing.T) {
	var asked []string
	keys := WithKeys(func(operation string) (string, error) {
		asked = append(asked, operation)
		return "k" + operation, nil
	})
	named := WithOperation(t.Context(), "refund:1")
	for _, c := range []struct {
		name    string
		ctx     context.Context
		options []Option
		want    []string
	}{
		{"a name is asked for twice", named, nil, []string{"refund:1", "refund:1"}},
		{"a name in the store too", named, []Option{WithStore(memstore.New())}, []string{"refund:1", "refund:1"}},
		{"a request without a name once", t.Context(), nil, []string{""}},
		{"a key of the caller's never", WithKey(named, "k1"), nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked = nil
			rt := &scripted{statuses: []int{503, 200}}
			client := open(t, append(c.options, keys, WithTransport(rt), WithRetry(RetryPolicy{Jitter: NoDelay}))...)
			require.NoError(t, send(c.ctx, t, client))
			require.Equal(t, c.want, asked)
		})
	}
}

func TestAMakerThatFailsTheSecondTimeGivesNoLastingKey(t *testing.T) {
	calls := 0
	rt := &scripted{statuses: []int{200}}
	client := open(t, WithTransport(rt), WithKeys(func(string) (string, error) {
		if calls++; calls == 2 {
			return "", errors.New("gone")
		}
		return "k1", nil
	}))
	err := send(WithOperation(t.Context(), "refund:1"), t, client)
	require.ErrorIs(t, err, taxonomy.InvalidOperation)
	require.Zero(t, rt.sent.Load())
}

// An SDK's request without an operation's name is sent once, as net/http would send it.
func TestWhatPassesThrough(t *testing.T) {
	opted := WithProfile(RedoProfile())
	for _, c := range []struct {
		name    string
		method  string
		mode    mode
		op      operation
		options []Option
		want    bool
	}{
		{"a POST under an SDK", "POST", modeTransport, operation{}, nil, true},
		{"a PUT under an SDK", "PUT", modeTransport, operation{}, nil, true},
		{"a key of the SDK's own", "POST", modeTransport, operation{key: "k2"}, nil, true},
		{"not a safe request", "GET", modeTransport, operation{}, nil, false},
		{"not an operation", "POST", modeTransport, operation{name: "refund:1"}, nil, false},
		{"not a key of the caller's", "POST", modeTransport, operation{key: "k1", given: true}, nil, false},
		{"not if the servers honour keys", "POST", modeTransport, operation{}, []Option{opted}, false},
		{"not without an SDK", "POST", modeDo, operation{}, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := &call{client: open(t, c.options...), req: build(t, t.Context(), c.method), mode: c.mode, op: c.op}
			require.Equal(t, c.want, k.passes())
		})
	}
}
