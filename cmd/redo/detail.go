package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"unicode/utf8"
)

// A detail writes one object for a person, a line for each of its properties.
type detail struct {
	w     io.Writer
	width int // of the labels
}

// line writes a property. It writes nothing for an empty text.
func (d detail) line(label, text string) {
	if text != "" {
		fmt.Fprintf(d.w, "%-*s %s\n", d.width, label, text)
	}
}

// header writes a line for each value, in the order of the names. See maskedHeader.
func (d detail) header(h http.Header) {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, v := range h[name] {
			d.line("header", name+": "+v)
		}
	}
}

// body writes a body after an empty line. Bytes that are no text are quoted.
func (d detail) body(b []byte) {
	if utf8.Valid(b) {
		fmt.Fprintf(d.w, "\n%s\n", b)
		return
	}
	fmt.Fprintf(d.w, "\n%q\n", b)
}
