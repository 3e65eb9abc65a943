package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// maxColumn bounds the width of a list's column, in characters. A longer cell is printed whole, because an operator
// copies it into the next command, and moves only the rest of its own line.
const maxColumn = 40

// A table aligns the columns of a list. Its first row is the head.
type table [][]string

// row adds a row of as many cells as the head has.
func (t *table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, cell := range cells {
		texts[i] = fmt.Sprint(cell)
	}
	*t = append(*t, texts)
}

func (t *table) write(w io.Writer) error {
	widths := make([]int, len((*t)[0]))
	for _, cells := range *t {
		for i, cell := range cells {
			widths[i] = min(maxColumn, max(widths[i], utf8.RuneCountInString(cell)))
		}
	}
	var b strings.Builder
	for _, cells := range *t {
		last := len(cells) - 1
		for i, cell := range cells[:last] {
			fmt.Fprintf(&b, "%-*s  ", widths[i], cell)
		}
		b.WriteString(cells[last] + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
