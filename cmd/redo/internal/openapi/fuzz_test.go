package openapi

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/redo-go/redo/cmd/redo/internal/targetfile"
	"github.com/redo-go/redo/conformance"
)

// A document is read without a panic. Its target file can be read too, once the noted variables are set.
func FuzzTarget(f *testing.F) {
	f.Add(document, "createTransfer")
	f.Add(document, "createFixed")
	f.Add(post("/x/{id}", "", "      requestBody: {content: {application/json: {example: &a [*a, '${HOME}']}}}\n", ""),
		"POST /x/{id}")
	f.Add(string(body("{type: object, properties: {idempotency_key: {type: string, maxLength: 45}, "+
		"list: {type: array, items: {properties: {note: {type: string}}}}}, example: {list: [{note: n}]}}")),
		"createOrder")
	f.Fuzz(func(t *testing.T, text, operation string) {
		target, notes, err := Target([]byte(text), operation)
		if err != nil {
			return
		}
		target.Name = "" // the user's own text
		written, err := targetfile.Format(target)
		if err != nil {
			t.Fatal(err)
		}
		noted := strings.Fields(strings.ReplaceAll(strings.Join(notes, " "), ",", ""))
		_, err = targetfile.Parse("target.yaml", written)
		var wrong conformance.FieldErrors
		if err != nil && !errors.As(err, &wrong) {
			t.Fatalf("%s\n%v", written, err)
		}
		for _, fault := range wrong {
			name, unset := strings.CutPrefix(fault.Text, "the environment has no variable ")
			if !unset || !slices.Contains(noted, name) {
				t.Fatalf("%s\n%v", written, err)
			}
		}
	})
}
