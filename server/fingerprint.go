package server

import (
	"errors"
	"mime"
	"net/http"
	"strings"

	"github.com/redo-go/redo/store"
)

// identify returns the request's fingerprint by the route's algorithm.
func (c *execution) identify() (store.Fingerprint, error) {
	switch {
	case c.fingerprint != nil:
		fp, err := c.fingerprint(c.r, c.payload)
		if err == nil && fp == (store.Fingerprint{}) {
			err = errors.New("server: the fingerprint function returned the zero Fingerprint")
		}
		return fp, err
	case c.canonicalJSON && isJSON(c.r.Header):
		return c.identifyAs(store.CanonicalJSONV1)
	default:
		return c.identifyAs(store.RawV1)
	}
}

// identifyAs returns the request's fingerprint by one algorithm. It returns the zero Fingerprint, which equals no
// record's, for an unknown one. The path is part of it, because the record's scope has only the route's pattern.
func (c *execution) identifyAs(version byte) (store.Fingerprint, error) {
	path, query := paths(c.r), c.r.URL.RawQuery
	switch version {
	case store.RawV1:
		return store.Raw(c.r.Method, path, query, c.payload), nil
	case store.CanonicalJSONV1:
		return store.CanonicalJSON(c.r.Method, path, query, c.payload)
	default:
		return store.Fingerprint{}, nil
	}
}

// paths returns the path of the request. If a layer outside has changed it, the path that the client sent comes first:
// http.StripPrefix makes requests for two routes look alike.
func paths(r *http.Request) string {
	path := r.URL.EscapedPath()
	if sent, _, _ := strings.Cut(r.RequestURI, "?"); strings.HasPrefix(sent, "/") && sent != path {
		return sent + "\n" + path
	}
	return path
}

// reserveRecord claims the ID. The record may have a fingerprint by another algorithm, from an older version or from
// before an option changed. If the request has the same fingerprint by that algorithm, it is not a mismatch. The
// record of an open transaction does not show its algorithm, so every algorithm is tried there.
func (c *execution) reserveRecord() (store.Grant, error) {
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
		// A request that the record's algorithm can't read is another request.
		fp, unread := c.identifyAs(version)
		if unread != nil || !unseen && fp != theirs {
			continue
		}
		c.used = true
		c.claim.Fingerprint = fp
		g, err = c.tryReserve()
		if unseen && (err != nil || !g.Verdict.Owned()) {
			c.claim.Fingerprint = own // the next claim may be of another's record
		}
	}
	return g, err
}

// isJSON reports whether the Content-Type is JSON: application/json, or a type with the suffix +json (RFC 6839). The
// bytes of an encoded body are no JSON.
func isJSON(h http.Header) bool {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	_, encoded := h["Content-Encoding"]
	return err == nil && !encoded &&
		(media == "application/json" || media == "text/json" || strings.HasSuffix(media, "+json"))
}
