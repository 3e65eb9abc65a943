// Package pgtable keeps the table of pgstore or pgoutbox: its name, its numbered migrations, its check, and the errors
// of its statements. Programs use those packages, not this one. It has no promise of compatibility.
package pgtable

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/redo-go/redo/store"
)

// MaxName is the length of the longest name in Postgres, in bytes. Postgres cuts longer names without an error.
const MaxName = 63

// A Table is a table with its place in a database. It is a value, and may be used concurrently.
type Table struct {
	// Package is the package that owns the table. Errors and the table's comment begin with it.
	Package string
	// Schema and Name are not quoted. CheckName checks them.
	Schema, Name string
	// Steps are the migrations, as templates for Fill. Steps[0] makes version 1, and Steps[n] makes version n+1 out of
	// version n. A step must leave a table that the release before can use: see [Table.Check].
	Steps []string
	// Privileges are the table privileges that Check requires, such as "SELECT". It requires none if Privileges is
	// empty.
	Privileges []string
}

// CheckName returns an error that wraps store.ErrInvalid unless name has 1 to limit bytes of UTF-8 without NUL.
func CheckName(pkg, kind, name string, limit int) error {
	switch {
	case name == "":
		return fmt.Errorf("%s: %w: the name of the %s is empty", pkg, store.ErrInvalid, kind)
	case len(name) > limit:
		return fmt.Errorf("%s: %w: the name of the %s, %.80q, has %d bytes, at most %d are allowed",
			pkg, store.ErrInvalid, kind, name, len(name), limit)
	case strings.ContainsRune(name, 0) || !utf8.ValidString(name):
		return fmt.Errorf("%s: %w: the name of the %s, %q, must be UTF-8 without NUL",
			pkg, store.ErrInvalid, kind, name)
	}
	return nil
}

// String returns the table's qualified name, quoted for SQL.
func (t Table) String() string { return t.qualified("") }

func (t Table) qualified(suffix string) string {
	return pgx.Identifier{t.Schema, t.Name + suffix}.Sanitize()
}

// Hash returns a number for the table. It makes advisory locks and channels of two tables different.
func (t Table) Hash() uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(t.String()))
	return h.Sum64()
}

var placeholder = regexp.MustCompile(`\{(table|[._'][a-z]+)\}`)

// Fill writes the table's names into a template:
//
//	{table}  the table, qualified
//	{.name}  the object whose name is the table's and "_name", qualified
//	{_name}  the same, not qualified, for the name of an index or a constraint
//	{'name}  the same, qualified, as a string literal
func (t Table) Fill(template string) string {
	return placeholder.ReplaceAllStringFunc(template, func(found string) string {
		kind, suffix := found[1], "_"+found[2:len(found)-1]
		switch kind {
		case '.':
			return t.qualified(suffix)
		case '_':
			return pgx.Identifier{t.Name + suffix}.Sanitize()
		case '\'':
			return Literal(t.qualified(suffix))
		}
		return t.String()
	})
}

// Literal returns s as a string literal. The E form reads a backslash the same way under every
// standard_conforming_strings.
func Literal(s string) string {
	quoted := "'" + strings.ReplaceAll(s, "'", "''") + "'"
	if strings.Contains(s, `\`) {
		return "E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}
