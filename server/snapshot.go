package server

import (
	"maps"
	"net/http"
	"slices"

	"github.com/redo-go/redo/internal/wire"
)

// A snapshot is a header as it was at one moment. It holds the common sizes without an allocation, which a copy
// of the map would need.
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

// restore makes h again what it was. It returns h as it has been since, nil if nothing has changed.
func (s *snapshot) restore(h http.Header) (since http.Header) {
	if s.equal(h) {
		return nil
	}
	since = maps.Clone(h)
	clear(h)
	for _, f := range s.fields {
		h[f.Name] = f.Values
	}
	return since
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

// keep appends to dst what of the header is kept with the response: what may be replayed at all, and was not there
// before the handler ran. What was, is set outside, and anew for each replay.
func (s *snapshot) keep(dst []wire.Field, before http.Header) []wire.Field {
	var hop http.Header // the Connection header, which may name others
	for _, f := range s.fields {
		if f.Name == "Connection" {
			hop = http.Header{f.Name: f.Values}
		}
	}
	for _, f := range s.fields {
		if !wire.Replayable(f.Name) || hop != nil && wire.ConnectionNames(hop, f.Name) {
			continue
		}
		if old, ok := before[f.Name]; ok && slices.Equal(old, f.Values) {
			continue
		}
		dst = append(dst, f)
	}
	return dst
}
