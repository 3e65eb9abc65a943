package conformance

import (
	"errors"
	"fmt"
	"strings"
)

// FieldErrors is the error of a description with wrong fields. It matches ErrConfig.
type FieldErrors []FieldError

// FieldError describes a wrong field.
type FieldError struct {
	// Field is the path of the field, such as "effects.url" or "setup.0.capture". It is empty if the fault has no
	// field.
	Field string
	// Line is the field's line in a file, for readers of files. Zero means that it is unknown.
	Line int
	Text string
	// Unknown is the name that the field has and that does not exist. Known lists the names that exist. Both are
	// empty for other faults.
	Unknown string
	Known   []string
}

// unknownName is the error of a name that does not exist.
type unknownName struct {
	text  string // without the known names
	name  string
	known []string
}

func (e unknownName) Error() string { return e.text + ", there are " + strings.Join(e.known, ", ") }

// Error returns one line for each field.
func (e FieldErrors) Error() string {
	lines := make([]string, len(e))
	for i, f := range e {
		lines[i] = f.String()
	}
	return ErrConfig.Error() + ": " + strings.Join(lines, "\n")
}

// Is reports whether target is ErrConfig.
func (e FieldErrors) Is(target error) bool { return target == ErrConfig }

// String returns the error in one line.
func (e FieldError) String() string {
	text := e.Text
	if e.Field != "" {
		text = e.Field + ": " + text
	}
	if e.Line > 0 {
		text = fmt.Sprintf("line %d: %s", e.Line, text)
	}
	return text
}

// add adds the faults of a field, if any.
func (e *FieldErrors) add(field string, err error) {
	if err == nil {
		return
	}
	var inner FieldErrors
	if !errors.As(err, &inner) {
		inner = FieldErrors{{Text: err.Error()}}
		var unknown unknownName
		if errors.As(err, &unknown) {
			inner[0].Unknown, inner[0].Known = unknown.name, unknown.known
		}
	}
	for _, f := range inner {
		f.Field = strings.Trim(field+"."+f.Field, ".")
		*e = append(*e, f)
	}
}

// check adds a fault unless ok.
func (e *FieldErrors) check(ok bool, field, format string, args ...any) {
	if !ok {
		e.add(field, fmt.Errorf(format, args...))
	}
}

// err returns e as an error, or nil if there is no fault.
func (e FieldErrors) err() error {
	if len(e) == 0 {
		return nil
	}
	return e
}
