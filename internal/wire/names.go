package wire

import (
	"fmt"
	"strings"
)

// Names are the names of headers and methods in the description of an API. An empty header is not used.
type Names struct {
	Key, Timeout, FirstSent string   // are sent
	Lifetime                string   // is received
	Stored                  []string // are sent, and kept in a record
	Read                    []string // are received
	Methods                 []string // get a key
}

// Check returns an error for a name that is none, that carries credentials, that has another meaning, or that two
// fields share. The error has no prefix of this package.
func (n Names) Check() error {
	for _, h := range []struct{ what, name string }{
		{"header", n.Key}, {"timeout header", n.Timeout}, {"first-sent header", n.FirstSent}, {"lifetime header", n.Lifetime},
	} {
		if h.name != "" && !Token(h.name) {
			return fmt.Errorf("the %s is %q, it must be a header name", h.what, h.name)
		}
	}
	for _, name := range []string{n.Key, n.Timeout, n.FirstSent} {
		switch {
		case CredentialHeader(name):
			return fmt.Errorf("the header %q carries credentials", name)
		case name == "" || name == n.Timeout && strings.EqualFold(name, HeaderRequestTimeout):
		case CheckKeyHeader(name) != nil:
			return fmt.Errorf("the header %q has another meaning in HTTP", name)
		}
	}
	switch {
	case n.Timeout != "" && strings.EqualFold(n.Key, n.Timeout):
		return fmt.Errorf("the key and the timeout are both to be sent as %q", n.Timeout)
	case n.FirstSent != "" && strings.EqualFold(n.Key, n.FirstSent):
		return fmt.Errorf("the key and the time of the first request are both to be sent as %q", n.FirstSent)
	case n.Timeout != "" && strings.EqualFold(n.Timeout, n.FirstSent):
		return fmt.Errorf("the timeout and the time of the first request are both to be sent as %q", n.Timeout)
	}
	return n.checkLists()
}

func (n Names) checkLists() error {
	for _, m := range n.Methods {
		switch {
		case SafeMethod(m):
			return fmt.Errorf("method %q is safe: it never gets a key", m)
		case !Token(m) || m != strings.ToUpper(m):
			return fmt.Errorf("method %q is not a method's name in capitals", m)
		}
	}
	for _, h := range n.Stored {
		switch {
		case CredentialHeader(h):
			return fmt.Errorf("the header %q carries credentials: it is never stored", h)
		case !Token(h):
			return fmt.Errorf("the stored header is %q, it must be a header name", h)
		case strings.EqualFold(h, n.Key):
			return fmt.Errorf("the stored header %q carries the key, which differs for each operation", h)
		}
	}
	for _, h := range n.Read {
		if !Token(h) {
			return fmt.Errorf("the response header is %q, it must be a header name", h)
		}
	}
	return nil
}
