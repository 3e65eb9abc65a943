package server

import (
	"mime"
	"net/http"
	"strings"

	"github.com/redo-go/redo/store"
)

// identify returns the fingerprint by which the route tells requests apart.
func (c *execution) identify() (store.Fingerprint, error) {
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
func (c *execution) identifyAs(version byte) (store.Fingerprint, error) {
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
// version or before an option changed, is no mismatch if the record's own algorithm finds the request to be the same. The
// record of an open transaction does not show its algorithm: there each one is asked.
func (c *execution) reserve() (store.Grant, error) {
	own := c.claim.Fingerprint
	g, err := c.tryReserve()
	for _, version := range [...]byte{store.RawV1, store.CanonicalJSONV1} {
		if err != nil || g.Verdict != store.Mismatch {
			break
		}
		theirs := g.Record.Fingerprint
		unseen := g.Record.Fence == 0
		if version == own.Version() || !unseen && version != theirs.Version() {
			continue
		}
		// A request that their algorithm can't read is not the one that it read: it fails to match.
		fp, unread := c.identifyAs(version)
		if unread != nil || !unseen && fp != theirs {
			continue
		}
		c.claim.Fingerprint = fp
		g, err = c.tryReserve()
		if unseen && (err != nil || !g.Verdict.Owned()) {
			c.claim.Fingerprint = own // what is claimed next may be another's record
		}
	}
	return g, err
}

// isJSON reports whether the body says that it is JSON: application/json, or a type with the suffix +json (RFC 6839).
func isJSON(h http.Header) bool {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return err == nil && (media == "application/json" || media == "text/json" || strings.HasSuffix(media, "+json"))
}
