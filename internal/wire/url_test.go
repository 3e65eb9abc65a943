package wire

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// A key and credentials belong to the origin that they were made for (RFC 6454 §4).
func TestSameOrigin(t *testing.T) {
	for _, c := range []struct {
		name, a, b string
		want       bool
	}{
		{"another path", "https://bank.test/a", "https://bank.test/b?x=1", true},
		{"the port that goes without saying", "https://bank.test", "https://bank.test:443", true},
		{"the port that goes without saying, without TLS", "http://bank.test:80", "http://bank.test", true},
		{"a host in capitals", "https://bank.test", "https://BANK.test", true},
		{"another user", "https://a@bank.test", "https://bank.test", true},
		{"an IPv6 address", "https://[::1]", "https://[::1]:443", true},
		{"another scheme", "https://bank.test", "http://bank.test", false},
		{"another scheme on the same port", "https://bank.test:8080", "http://bank.test:8080", false},
		{"another host", "https://bank.test", "https://shop.test", false},
		{"a subdomain", "https://bank.test", "https://api.bank.test", false},
		{"a host that only begins the same", "https://bank.test", "https://bank.test.evil.test", false},
		{"another port", "https://bank.test", "https://bank.test:8443", false},
		{"the other scheme's port", "https://bank.test", "https://bank.test:80", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := url.Parse(c.a)
			require.NoError(t, err)
			b, err := url.Parse(c.b)
			require.NoError(t, err)
			require.Equal(t, c.want, SameOrigin(a, b))
			require.Equal(t, c.want, SameOrigin(b, a))
		})
	}
}

func TestWithoutCredentials(t *testing.T) {
	for _, c := range []struct {
		name, from, want string
		secret           bool
	}{
		{"nothing", "https://bank.test/a", "https://bank.test/a", false},
		{"an ordinary query", "https://bank.test/a?x=1&y=%20&x=2&", "https://bank.test/a?x=1&y=%20&x=2&", false},
		{"an escaped path", "https://bank.test/a%2Fb?x", "https://bank.test/a%2Fb?x", false},
		{"a fragment", "https://bank.test/a#part", "https://bank.test/a", false},
		{"a password", "https://user:hunter2@bank.test/a", "https://bank.test/a", false},
		{"the only parameter", "https://bank.test/a?token=hunter2", "https://bank.test/a", true},
		{"the first parameter", "https://bank.test/a?token=hunter2&x=1&y=2", "https://bank.test/a?x=1&y=2", true},
		{"one in the middle", "https://bank.test/a?x=1&api_key=hunter2&y=2", "https://bank.test/a?x=1&y=2", true},
		{"several", "https://bank.test/a?sig=hunter2&x=1&sig=hunter3", "https://bank.test/a?x=1", true},
		{"in capitals", "https://bank.test/a?X-Amz-Signature=hunter2&x=1", "https://bank.test/a?x=1", true},
		{"an escaped name", "https://bank.test/a?%74oken=hunter2&x=1", "https://bank.test/a?x=1", true},
		{"without a value", "https://bank.test/a?token&x=1", "https://bank.test/a?x=1", true},
		{"a name that only begins the same", "https://bank.test/a?tokens=3", "https://bank.test/a?tokens=3", false},
		{"a value that is such a name", "https://bank.test/a?x=token", "https://bank.test/a?x=token", false},
		{"a name that is no escape", "https://bank.test/a?%zz=1", "https://bank.test/a?%zz=1", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			from, err := url.Parse(c.from)
			require.NoError(t, err)
			before := *from
			got, secret := WithoutCredentials(from)
			require.Equal(t, c.want, got.String())
			require.Equal(t, c.secret, secret)
			require.Equal(t, before, *from, "the caller's URL is not changed")
		})
	}
}

func TestShownURLHasNoSecrets(t *testing.T) {
	for address, want := range map[string]string{
		"http://x/y?token=abc": "http://x/y?***",
		"http://x/y":           "http://x/y",
		"https://ana:secret@shop.example/hooks?token=abc": "https://***@shop.example/hooks?***",
		"https://token@shop.example":                      "https://***@shop.example",
		"https://a:b@c@shop.example/@ana":                 "https://***@shop.example/@ana",
		"https://shop.example/@ana?mail=ana@x":            "https://shop.example/@ana?***",
		"https://ana:se/cret@shop.example/hooks":          "a URL that can't be read",
		"https://ana:se?cret@shop.example/hooks":          "a URL that can't be read",
		"https://shop.example:x/hooks?token=abc":          "https://shop.example:x/hooks?***",
		"https://shop.example/hooks#token":                "https://shop.example/hooks",
		"https://shop.example/hooks?a=b#token":            "https://shop.example/hooks?***",
		"https://shop.example#token/a?b":                  "https://shop.example?***",
		"/hooks?token=abc":                                "/hooks?***",
		"shop":                                            "shop",
		"ana@shop":                                        "ana@shop", // a name, for outbox.Resolve
	} {
		require.Equal(t, want, ShownURL(address))
	}
}
