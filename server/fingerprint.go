package server

import (
	"mime"
	"net/http"
	"strings"

	"github.com/redo-go/redo/store"
)

// identify returns the fingerprint by which the route tells requests apart.
func (c *call) identify() (store.Fingerprint, error) {
	switch {
	case c.fingerprint != nil:
		return c.fingerprint(c.r, c.payload)
	case c.canonicalJSON && isJSON(c.r.Header):
		return c.identifyAs(store.CanonicalJSONV1)
	default:
		return c.identifyAs(store.RawV1)
	}
}

// identifyAs uses one algorithm; the zero Fingerprint, which equals no record's, stands for one that it does not
// know. The path is the raw one, since the record's scope has only the route's pattern.
func (c *call) identifyAs(version byte) (store.Fingerprint, error) {
	u := c.r.URL
	switch version {
	case store.RawV1:
		return store.Raw(c.r.Method, u.EscapedPath(), u.RawQuery, c.payload), nil
	case store.CanonicalJSONV1:
		return store.CanonicalJSON(c.r.Method, u.EscapedPath(), u.RawQuery, c.payload)
	default:
		return store.Fingerprint{}, nil
	}
}

// reserve claims the key. A mismatch with a record whose fingerprint was made by another algorithm, by an older
// version or before an option changed, is no mismatch if the record's own algorithm finds the request to be the same.
func (c *call) reserve() (store.Grant, error) {
	g, err := c.tryReserve()
	theirs := g.Record.Fingerprint
	if err != nil || g.Verdict != store.Mismatch || theirs.IsZero() || theirs.Version() == c.claim.Fingerprint.Version() {
		return g, err
	}
	// A request that their algorithm can't read is not the one that it read: it fails to match.
	if ours, err := c.identifyAs(theirs.Version()); err == nil && ours == theirs {
		c.claim.Fingerprint = theirs
		return c.tryReserve()
	}
	return g, nil
}

// isJSON reports whether the body says that it is JSON: application/json, or a type with the suffix +json (RFC 6839).
func isJSON(h http.Header) bool {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && (media == "application/json" || media == "text/json" || strings.HasSuffix(media, "+json"))
}
