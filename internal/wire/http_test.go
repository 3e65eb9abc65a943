package wire

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSafeMethod(t *testing.T) {
	for _, m := range []string{"", "GET", "HEAD", "OPTIONS", "TRACE", "QUERY"} {
		require.True(t, SafeMethod(m), m)
		require.True(t, IdempotentMethod(m), m)
	}
	for _, m := range []string{"POST", "PATCH", "PUT", "DELETE", "CONNECT", "get", "Query"} {
		require.False(t, SafeMethod(m), m)
	}
	require.True(t, IdempotentMethod("PUT"))
	require.True(t, IdempotentMethod("DELETE"))
	require.False(t, IdempotentMethod("POST"))
	require.False(t, IdempotentMethod("PATCH"))
}

func TestToken(t *testing.T) {
	for _, s := range []string{"POST", "Idempotency-Key", "a", "!#$%&'*+-.^_`|~09azAZ"} {
		require.True(t, Token(s), "%q", s)
	}
	for _, s := range []string{"", " ", "a b", "a:b", "a\r\n", "é", "(", "\x7f", "a\x00"} {
		require.False(t, Token(s), "%q", s)
	}
}

func TestHeaderValue(t *testing.T) {
	for _, s := range []string{"", "a b", "a\tb", "é", "\x80"} {
		require.True(t, HeaderValue(s), "%q", s)
	}
	for _, s := range []string{"a\r\nb", "a\nb", "\x00", "\x7f"} {
		require.False(t, HeaderValue(s), "%q", s)
	}
}

func TestLines(t *testing.T) {
	for range 20 { // a map has no order
		h := http.Header{"X-Key": {"a"}, "x-key": {"b"}, "X-Own": {"c"}, "X-Off": {}}
		require.Equal(t, []string{"a"}, Lines(h, "X-Key"), "the canonical spelling comes first")
		require.Equal(t, []string{}, Lines(h, "X-Off"))
		delete(h, "X-Key")
		require.Equal(t, []string{"b"}, Lines(h, "X-Key"))
		require.Nil(t, Lines(h, "X-Not"))
	}
}

func TestCredentials(t *testing.T) {
	for _, name := range []string{
		"Authorization", "authorization", "Cookie", "x-api-key", "DPoP", "Proxy-Authorization",
	} {
		require.True(t, CredentialHeader(name), name)
	}
	for _, name := range []string{
		"I-Twilio-Idempotency-Token", "X-Author-Id", "Idempotency-Key", "Content-Type", "Stripe-Account",
	} {
		require.False(t, CredentialHeader(name), name)
	}
	require.True(t, CredentialParameter("API_Key", "1"))
	require.True(t, CredentialParameter("X-Amz-Signature", "1"))
	require.False(t, CredentialParameter("keyword", "1"))
	require.False(t, CredentialParameter("page", "1"))
	require.False(t, CredentialParameter("key", "customers/1"), "often an identifier")
	require.True(t, CredentialParameter("key", "AIzaSyD-1"), "a Google API key")
}
