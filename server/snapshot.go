package server

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/redo-go/redo/internal/wire"
)

// A snapshot is a copy of a header. The common sizes need no allocation, unlike a copy of the map.
type snapshot struct {
	fields    []wire.Field
	values    []string
	fewFields [12]wire.Field
	fewValues [16]string
}

func (s *snapshot) take(h http.Header) {
	s.fields, s.values = s.fewFields[:0], s.fewValues[:0]
	for name, list := range h {
		f := wire.Field{Name: name}
		if list != nil {
			from := len(s.values)
			s.values = append(s.values, list...)
			f.Values = s.values[from:len(s.values):len(s.values)]
		}
		s.fields = append(s.fields, f)
	}
}

// restore sets h to the snapshot. It returns h as it was before, or nil if nothing has changed.
func (s *snapshot) restore(h http.Header) (changed http.Header) {
	if s.equal(h) {
		return nil
	}
	changed = maps.Clone(h)
	clear(h)
	for _, f := range s.fields {
		h[f.Name] = f.Values
	}
	return changed
}

func (s *snapshot) equal(h http.Header) bool {
	if len(h) != len(s.fields) {
		return false
	}
	for _, f := range s.fields {
		if list, ok := h[f.Name]; !ok || !slices.Equal(list, f.Values) {
			return false
		}
	}
	return true
}

// keep appends to dst the fields that are stored with the response. It leaves out those that are never replayed, and
// those that were set before the handler ran, because they are set again for a replay. A field without values means
// that the handler deleted it.
func (s *snapshot) keep(dst []wire.Field, before http.Header, filter func(string) bool) []wire.Field {
	var hop http.Header // the Connection header, which can name others
	for _, f := range s.fields {
		if strings.EqualFold(f.Name, "Connection") {
			hop = http.Header{"Connection": f.Values}
		}
	}
	for _, f := range s.fields {
		if !wire.Replayable(f.Name) || hop != nil && wire.ConnectionNames(hop, f.Name) ||
			filter != nil && !filter(http.CanonicalHeaderKey(f.Name)) {
			continue
		}
		if old, ok := before[f.Name]; ok && slices.Equal(old, f.Values) {
			continue
		}
		dst = append(dst, f)
	}
	for name := range before {
		if !s.has(name) {
			dst = append(dst, wire.Field{Name: name})
		}
	}
	return dst
}

func (s *snapshot) has(name string) bool {
	return slices.ContainsFunc(s.fields, func(f wire.Field) bool { return f.Name == name })
}
