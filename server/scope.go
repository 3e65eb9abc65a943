package server

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"

	"github.com/redo-go/redo/store"
)

// maxPlainScope is the length of the longest scope that is stored as text, for operators to read. A longer scope is
// hashed, so that no route and no principal is too long for a store.
const maxPlainScope = 512

// recordID returns the ID of a key's record under one pepper, which may be nil. The principal is "" if the keys are
// shared.
func (c *config) recordID(r *http.Request, key, principal string, pepper []byte) store.ID {
	key = c.canonical(key)
	if pepper != nil {
		return store.ID{Scope: c.scope(r, "", false), Key: peppered(pepper, c.operation(r), principal, key)}
	}
	return store.ID{Scope: c.scope(r, principal, c.principal != nil), Key: key}
}

// recordIDs returns the IDs of a key's record under each secret, the one for new records first.
func (c *config) recordIDs(r *http.Request, key, principal string) []store.ID {
	ids := []store.ID{c.recordID(r, key, principal, c.pepper())}
	for i := 1; i < len(c.peppers); i++ {
		ids = append(ids, c.recordID(r, key, principal, c.peppers[i]))
	}
	return ids
}

// pepper returns the secret for new records, or nil.
func (c *config) pepper() []byte {
	if len(c.peppers) == 0 {
		return nil
	}
	return c.peppers[0]
}

// operation returns the name of the request's route: the name given to Route, or else the pattern that the mux
// matched, or else the method and an asterisk. It is never the path: as a metric's label that would have no bound.
func (c *config) operation(r *http.Request) string {
	switch {
	case c.routeName != "":
		return c.routeName
	case r.Pattern != "":
		return r.Pattern
	default:
		return r.Method + " *"
	}
}

// scope returns the scope of a request's record. Each part is preceded by its length, and an optional one by a letter
// too, so that different parts never make the same scope.
func (c *config) scope(r *http.Request, principal string, scoped bool) string {
	var buf [maxPlainScope]byte
	b := buf[:0]
	if c.scopeName != "" {
		b = appendPart(append(b, 's'), c.scopeName)
	}
	if c.routeName != "" {
		// The pattern is not part of the scope. Its host still is, because one name may be given to routes of several
		// hosts.
		if host := hostOf(r.Pattern); host != "" && host != hostOf(c.routeName) {
			b = appendPart(append(b, 'h'), host)
		}
	}
	b = appendPart(b, c.operation(r))
	if scoped {
		b = appendPart(b, principal)
	}
	if len(b) > maxPlainScope {
		sum := sha256.Sum256(b)
		return "sha256:" + hex.EncodeToString(sum[:])
	}
	return string(b)
}

func appendPart(b []byte, s string) []byte {
	b = strconv.AppendInt(b, int64(len(s)), 10)
	b = append(b, ':')
	return append(b, s...)
}

// hostOf returns the host of a pattern "[METHOD ][HOST]/[PATH]" of http.ServeMux, or "" if it has none.
func hostOf(pattern string) string {
	if _, rest, ok := strings.Cut(pattern, " "); ok {
		pattern = strings.TrimLeft(rest, " \t")
	}
	host, _, ok := strings.Cut(pattern, "/")
	if !ok {
		return ""
	}
	return host
}

// peppered returns the HMAC-SHA256 of the parts, in hexadecimal digits. Each part is preceded by its length.
func peppered(pepper []byte, parts ...string) string {
	mac := hmac.New(sha256.New, pepper)
	var in []byte
	for _, part := range parts {
		in = binary.AppendUvarint(in, uint64(len(part)))
		in = append(in, part...)
	}
	mac.Write(in)
	return hex.EncodeToString(mac.Sum(nil))
}
