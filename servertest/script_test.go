package servertest_test

import (
	"testing"
	"time"

	"github.com/redo-go/redo/servertest"
	"github.com/stretchr/testify/require"
)

// statuses sends a request per key and returns the statuses.
func statuses(t *testing.T, srv *servertest.Server, keys ...string) []int {
	t.Helper()
	got := make([]int, len(keys))
	for i, key := range keys {
		got[i], _ = answerTo(t, srv, key)
	}
	return got
}

func TestScriptOrder(t *testing.T) {
	for _, test := range []struct {
		rule string
		opts []servertest.Option
		keys []string
		want []int
	}{
		{
			rule: "steps are met in order, and OK follows the last",
			opts: []servertest.Option{servertest.Script("k1", servertest.Status(503), servertest.Status(502))},
			keys: []string{"k1", "k1", "k1"}, want: []int{503, 502, 201},
		},
		{
			rule: "each key goes through its own steps",
			opts: []servertest.Option{
				servertest.Script("k1", servertest.Status(501), servertest.Status(502)),
				servertest.Script("k2", servertest.Status(503)),
			},
			keys: []string{"k1", "k2", "k1"}, want: []int{501, 503, 502},
		},
		{
			rule: "scripts for one key follow each other",
			opts: []servertest.Option{
				servertest.Script("k1", servertest.Status(501)), servertest.Script("k1", servertest.Status(502)),
			},
			keys: []string{"k1", "k1"}, want: []int{501, 502},
		},
		{
			rule: "a key is the same with and without quotes",
			opts: []servertest.Option{servertest.Script("k1", servertest.Status(501), servertest.Status(502))},
			keys: []string{`"k1"`, "k1"}, want: []int{501, 502},
		},
		{
			rule: "so is the key of a script",
			opts: []servertest.Option{servertest.Script(`"k1"`, servertest.Status(501), servertest.Status(502))},
			keys: []string{`"k1"`, "k1"}, want: []int{501, 502},
		},
		{
			rule: "the empty key is a request without one",
			opts: []servertest.Option{servertest.Script("", servertest.Status(501))},
			keys: []string{"k1", ""}, want: []int{201, 501},
		},
		{
			rule: "ScriptNext goes by first appearance",
			opts: []servertest.Option{
				servertest.ScriptNext(servertest.Status(501), servertest.Status(502)),
				servertest.ScriptNext(servertest.Status(503)),
			},
			keys: []string{"a", "b", "a", "c"}, want: []int{501, 503, 502, 201},
		},
		{
			rule: "ScriptNext passes over keys that have a script",
			opts: []servertest.Option{
				servertest.Script("k1", servertest.Status(501)), servertest.ScriptNext(servertest.Status(502)),
			},
			keys: []string{"k1", "k1", "a"}, want: []int{501, 201, 502},
		},
		{
			rule: "ScriptEach is every other key's own",
			opts: []servertest.Option{
				servertest.Script("k1", servertest.Status(501)), servertest.ScriptNext(servertest.Status(502)),
				servertest.ScriptEach(servertest.Status(503)),
			},
			keys: []string{"k1", "a", "b", "c", "b"}, want: []int{501, 502, 503, 503, 201},
		},
	} {
		t.Run(test.rule, func(t *testing.T) {
			srv := servertest.NewInMemory(t, append(test.opts, servertest.Bare())...)
			require.Equal(t, test.want, statuses(t, srv, test.keys...))
		})
	}
}

func TestUnfiredStepsFailTheTest(t *testing.T) {
	for _, test := range []struct {
		rule string
		opts []servertest.Option
		keys []string
		want []string
	}{
		{
			rule: "every step that no request came for is named",
			opts: []servertest.Option{
				servertest.Script("k2", servertest.ResetAfterEffect()),
				servertest.Script("k1", servertest.Status(503), servertest.Delay(time.Second), servertest.OK()),
			},
			keys: []string{"k1"},
			want: []string{
				`servertest: key "k2", step 1, ResetAfterEffect(): no request came for it`,
				`servertest: key "k1", step 2, Delay(1s): no request came for it`,
				`servertest: key "k1", step 3, OK(): no request came for it`,
			},
		},
		{
			rule: "scripts that no key came for are named",
			opts: []servertest.Option{
				servertest.ScriptNext(servertest.Status(503)), servertest.ScriptNext(servertest.Status(502)),
				servertest.ScriptEach(servertest.OK()),
			},
			keys: []string{"a"},
			want: []string{
				"servertest: ScriptNext 2: no key came for it", "servertest: ScriptEach: no key came for it",
			},
		},
		{
			rule: "the key that took a script is named",
			opts: []servertest.Option{
				servertest.ScriptNext(servertest.Status(503), servertest.RateLimited(servertest.RetryAfterRaw("soon"))),
				servertest.ScriptEach(servertest.Status(502), servertest.TruncatedBody(3)),
			},
			keys: []string{"a", "b"},
			want: []string{
				`servertest: key "a", ScriptNext 1, step 2, RateLimited(RetryAfterRaw("soon")): no request came for it`,
				`servertest: key "b", ScriptEach, step 2, TruncatedBody(3): no request came for it`,
			},
		},
		{
			rule: "a StaleKeepAlive that no request met has not fired",
			opts: []servertest.Option{servertest.Script("k1", servertest.StaleKeepAlive())},
			keys: []string{"k1"},
			want: []string{`servertest: key "k1", step 1, StaleKeepAlive(): taken by request 1, but it never fired`},
		},
		{
			rule: "a fault that found nothing to act on reports why",
			opts: []servertest.Option{
				servertest.Handler(text("")), servertest.Script("k1", servertest.SlowBody(time.Second)),
			},
			keys: []string{"k1"},
			want: []string{
				`servertest: key "k1", step 1, SlowBody(1s): taken by request 1, but it did not reach the wire: servertest: the response has no body that could be slow`,
			},
		},
		{
			rule: "Lenient lets steps be left over",
			opts: []servertest.Option{
				servertest.Lenient(), servertest.Script("k1", servertest.Status(503), servertest.OK()),
				servertest.ScriptNext(servertest.OK()),
			},
			keys: []string{"k1"},
		},
	} {
		t.Run(test.rule, func(t *testing.T) {
			fake := newFakeTB(t)
			srv := servertest.NewInMemory(fake, append(test.opts, servertest.Bare())...)
			statuses(t, srv, test.keys...)
			require.Empty(t, fake.errors)
			fake.end()
			require.Equal(t, test.want, fake.errors)
		})
	}
}
