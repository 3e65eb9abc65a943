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
