package targetfile

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/redo-go/redo/cmd/redo/internal/nearest"
	"github.com/redo-go/redo/conformance"
)

// check compares a document with the Go type of its description. It returns the unknown members and the values of a
// wrong type, with their lines.
func check(n *yaml.Node, of reflect.Type, field string) conformance.FieldErrors {
	for ; n.Kind == yaml.DocumentNode || n.Kind == yaml.AliasNode; n = inner(n) {
	}
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	wrong := func(format string, args ...any) conformance.FieldErrors {
		return conformance.FieldErrors{{Field: field, Line: n.Line, Text: fmt.Sprintf(format, args...)}}
	}
	needs := func(kind yaml.Kind, tags, wanted string) conformance.FieldErrors {
		if n.Kind != kind || tags != "" && !strings.Contains(tags, n.ShortTag()) {
			return wrong("must be %s", wanted)
		}
		return nil
	}
	if n.ShortTag() == "!!null" || n.Kind == yaml.ScalarNode && environment.MatchString(n.Value) {
		return nil
	}
	if reflect.PointerTo(of).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil
	}
	if v, ok := reflect.New(of).Interface().(encoding.TextUnmarshaler); ok {
		if err := v.UnmarshalText([]byte(n.Value)); err != nil {
			return wrong("%v", err)
		}
		return nil
	}
	switch of.Kind() {
	case reflect.Struct:
		return append(needs(yaml.MappingNode, "", "an object"), members(n, of, field)...)
	case reflect.Map:
		all := needs(yaml.MappingNode, "", "an object")
		for i := 0; all == nil && i+1 < len(n.Content); i += 2 {
			all = append(all, check(n.Content[i+1], of.Elem(), join(field, n.Content[i].Value))...)
		}
		return all
	case reflect.Slice:
		all := needs(yaml.SequenceNode, "", "a list")
		for i := 0; all == nil && i < len(n.Content); i++ {
			all = append(all, check(n.Content[i], of.Elem(), join(field, strconv.Itoa(i)))...)
		}
		return all
	case reflect.String:
		return needs(yaml.ScalarNode, "!!str !!timestamp", "a text: put it in quotation marks")
	case reflect.Bool:
		return needs(yaml.ScalarNode, "!!bool", "true or false")
	}
	return needs(yaml.ScalarNode, "!!int", "a whole number")
}

// members checks the members of an object.
func members(n *yaml.Node, of reflect.Type, field string) conformance.FieldErrors {
	types := map[string]reflect.Type{}
	var names []string
	for _, f := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			types[name] = f.Type
			names = append(names, name)
		}
	}
	var all conformance.FieldErrors
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		name := n.Content[i].Value
		if types[name] == nil {
			all = append(all, conformance.FieldError{Field: field, Line: n.Content[i].Line,
				Text: fmt.Sprintf("there is no member %q%s", name, nearest.DidYouMean(name, names))})
			continue
		}
		all = append(all, check(n.Content[i+1], types[name], join(field, name))...)
	}
	return all
}

func inner(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n.Content[0]
}

func join(field, name string) string { return strings.TrimPrefix(field+"."+name, ".") }

// lineOf returns the line of a field, or of its nearest parent that the document has.
func lineOf(n *yaml.Node, field string) int {
	line := n.Line
	for name := range strings.SplitSeq(field, ".") {
		for n.Kind == yaml.DocumentNode || n.Kind == yaml.AliasNode {
			n = inner(n)
		}
		var next *yaml.Node
		for i, c := range n.Content {
			switch {
			case n.Kind == yaml.SequenceNode && strconv.Itoa(i) == name:
				next, line = c, c.Line
			case n.Kind == yaml.MappingNode && i%2 == 0 && c.Value == name:
				next, line = n.Content[i+1], c.Line
			}
		}
		if next == nil {
			break
		}
		n = next
	}
	return line
}
