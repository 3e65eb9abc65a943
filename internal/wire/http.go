package wire

import (
	"net/http"
	"net/textproto"
	"strings"
)

// MethodQuery is the QUERY method, which is safe and has a body.
const MethodQuery = "QUERY"

// SafeMethod reports whether the method is safe: GET, HEAD, OPTIONS, TRACE or QUERY (RFC 9110 section 9.2.1). The
// empty method is GET. A safe method has no effect, so it carries no key and may always be retried. Methods are
// case-sensitive.
func SafeMethod(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, MethodQuery:
		return true
	}
	return false
}

// IdempotentMethod reports whether the method is idempotent by definition (RFC 9110 section 9.2.2): a safe one, PUT
// or DELETE.
func IdempotentMethod(method string) bool {
	return SafeMethod(method) || method == http.MethodPut || method == http.MethodDelete
}

// NoServer is the value of http.ServerContextKey for a request that another server than net/http's has received, for
// example by HTTP/3. If an upstream's response breaks off, httputil.ReverseProxy panics only under such a value.
// Otherwise it ends the first part of the response as if that were the whole.
var NoServer = new(http.Server)

// Token reports whether s is a token (RFC 9110 section 5.6.2): the syntax of header names and methods.
func Token(s string) bool {
	for i := range len(s) {
		if !tokenBytes[s[i]] {
			return false
		}
	}
	return s != ""
}

// tokenBytes holds true for each byte that a token may have.
var tokenBytes = func() (allowed [256]bool) {
	for c := byte('!'); c < 0x7f; c++ {
		allowed[c] = strings.IndexByte("\"(),/:;<=>?@[\\]{}", c) < 0
	}
	return allowed
}()

// HeaderValue reports whether v can be sent as a header's value (RFC 9110 section 5.5): it has no control character
// but the tab.
func HeaderValue(v string) bool {
	for i := range len(v) {
		if c := v[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// credentialHeaders lists the request headers, in canonical form, whose values are credentials by definition or by
// wide use.
var credentialHeaders = map[string]bool{
	"Authorization": true, "Proxy-Authorization": true, "Cookie": true, "Dpop": true,
	"Api-Key": true, "Apikey": true, "X-Api-Key": true, "X-Apikey": true, "X-Goog-Api-Key": true,
	"Ocp-Apim-Subscription-Key": true, "X-Access-Token": true, "X-Auth-Token": true, "X-Amz-Security-Token": true,
	"X-Goog-Iam-Authorization-Token": true, "X-Csrf-Token": true, "X-Xsrf-Token": true, "X-Shopify-Access-Token": true,
	"Private-Token": true, "Job-Token": true,
	"X-Vault-Token": true, "X-Jwt-Assertion": true, "X-Session": true, "X-Session-Token": true,
}

// CredentialHeader reports whether a request header of this name, in any case, carries credentials. It compares whole
// names: a search for parts such as "token" or "auth" would also find I-Twilio-Idempotency-Token and X-Author-Id.
func CredentialHeader(name string) bool {
	return credentialHeaders[textproto.CanonicalMIMEHeaderKey(name)]
}

// credentialParameters lists the query parameters, in lower case, whose values are credentials.
var credentialParameters = map[string]bool{
	"api_key": true, "apikey": true, "api-key": true, "access_token": true, "auth_token": true, "token": true,
	"client_secret": true, "secret": true, "password": true, "sig": true, "signature": true, "x-amz-signature": true,
	"x-amz-security-token": true, "x-amz-credential": true, "x-goog-signature": true, "x-goog-credential": true,
}

// CredentialParameter reports whether a query parameter carries credentials. A parameter named key is often an
// identifier: it counts only if its value has the form of a Google API key.
func CredentialParameter(name, value string) bool {
	name = strings.ToLower(name)
	return credentialParameters[name] || name == "key" && strings.HasPrefix(value, "AIza")
}

// Lines returns the values of a header in any spelling of its name, which is given in canonical form. It returns nil if
// there is none.
func Lines(h http.Header, name string) []string {
	if lines := h[name]; lines != nil {
		return lines
	}
	for other, lines := range h {
		if SameName(other, name) {
			return lines
		}
	}
	return nil
}

// SameName reports whether other is a spelling of the header name, which is given in canonical form.
func SameName(other, name string) bool {
	return len(other) == len(name) && textproto.CanonicalMIMEHeaderKey(other) == name
}
