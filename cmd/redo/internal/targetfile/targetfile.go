// Package targetfile reads the description of a conformance target from YAML or JSON.
//
// The members are those of [conformance.Target] in its JSON form. An unknown member is an error, so that a typing error
// does not silently skip cases.
package targetfile

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/redo-go/redo/cmd/redo/internal/nearest"
	"github.com/redo-go/redo/conformance"
)

// Example is a target file that shows every member, with comments.
//
//go:embed example.yaml
var Example string

// Parse reads a description. A name that ends in .json is that of a JSON file. Every other file is YAML, of which JSON
// is a part. Errors match conformance.ErrConfig. Those about fields are conformance.FieldErrors with lines.
//
// ${NAME} in a text is the value of that environment variable, and reports mask it. $${NAME} is the text ${NAME}.
func Parse(name string, data []byte) (conformance.Target, error) {
	var doc yaml.Node
	document, err := data, error(nil)
	if filepath.Ext(name) != ".json" {
		document, err = toJSON(&doc, data)
	} else if !json.Valid(data) || yaml.Unmarshal(data, &doc) != nil { // some JSON is no YAML
		doc = yaml.Node{}
	}
	if err != nil {
		return conformance.Target{}, fmt.Errorf("%w: %w", conformance.ErrConfig, err)
	}
	if !doc.IsZero() {
		if wrong := check(&doc, reflect.TypeFor[conformance.Target](), ""); wrong != nil {
			return conformance.Target{}, wrong
		}
	}
	document, values, err := expand(document, data)
	if err != nil {
		return conformance.Target{}, err
	}
	target, err := conformance.ReadTarget(bytes.NewReader(document))
	target.Secrets = values
	var wrong conformance.FieldErrors
	if errors.As(err, &wrong) && !doc.IsZero() {
		for i, w := range wrong {
			wrong[i].Line = lineOf(&doc, w.Field)
			wrong[i].Text += nearest.DidYouMean(w.Unknown, w.Known)
		}
	}
	return target, err
}

// Format writes a description as YAML that Parse reads back.
func Format(t conformance.Target) ([]byte, error) {
	raw, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	// Decoding JSON as YAML into a node keeps the order of its members.
	var doc yaml.Node
	if err := yaml.Unmarshal(printable(raw), &doc); err != nil {
		return nil, err
	}
	block(&doc)
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(&doc), enc.Close()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// printable escapes the characters of JSON that YAML forbids. They stand in strings alone.
func printable(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	for _, r := range string(raw) {
		switch {
		case r >= 0x7f && r < 0xa0 || r == 0xfeff || r == 0xfffe || r == 0xffff:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

// block takes JSON's braces and quotation marks away. Quotation marks that are needed come back in the encoder.
func block(n *yaml.Node) {
	n.Style = 0
	for _, c := range n.Content {
		block(c)
	}
}

// toJSON reads one YAML document into doc and converts it. The order of members is kept, because a body is sent
// unchanged.
func toJSON(doc *yaml.Node, data []byte) ([]byte, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var more yaml.Node
	switch err := dec.Decode(doc); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("the target file is empty")
	case err != nil:
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("the target file has more than one YAML document")
	}
	c := converter{}
	if err := c.write(doc, 0); err != nil {
		return nil, err
	}
	return c.out.Bytes(), nil
}

// These constants limit the size of a small file's aliases.
const (
	maxBytes = 1 << 20
	maxDepth = 100
)

type converter struct{ out bytes.Buffer }

func (c *converter) write(n *yaml.Node, depth int) error {
	if depth > maxDepth || c.out.Len() > maxBytes {
		return at(n, "the target is too large, or nested too deeply")
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return c.write(n.Content[0], depth+1)
	case yaml.AliasNode:
		return c.write(n.Alias, depth+1)
	case yaml.MappingNode:
		return c.object(n, depth)
	case yaml.SequenceNode:
		c.out.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				c.out.WriteByte(',')
			}
			if err := c.write(item, depth+1); err != nil {
				return err
			}
		}
		c.out.WriteByte(']')
		return nil
	}
	return c.scalar(n)
}

func (c *converter) object(n *yaml.Node, depth int) error {
	seen := map[string]bool{}
	c.out.WriteByte('{')
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		switch {
		case name.Kind != yaml.ScalarNode:
			return at(name, "the name of a member must be a text")
		case seen[name.Value]:
			return at(name, "the member %q is there twice", name.Value)
		}
		seen[name.Value] = true
		if i > 0 {
			c.out.WriteByte(',')
		}
		c.text(name.Value)
		c.out.WriteByte(':')
		if err := c.write(value, depth+1); err != nil {
			return err
		}
	}
	c.out.WriteByte('}')
	return nil
}

func (c *converter) scalar(n *yaml.Node) error {
	switch n.ShortTag() {
	case "!!null":
		c.out.WriteString("null")
	case "!!bool":
		c.out.WriteString(strconv.FormatBool(strings.EqualFold(n.Value, "true")))
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) { // its digits are kept, however many
			c.out.WriteString(n.Value)
			return nil
		}
		return at(n, "%q is no number of JSON: write it in decimal, or in quotation marks", n.Value)
	case "!!str", "!!timestamp":
		c.text(n.Value)
	default:
		return at(n, "the tag %s means nothing here", n.Tag)
	}
	return nil
}

// text writes a JSON string. Unlike json.Marshal it leaves <, > and & alone: a body is sent unchanged.
func (c *converter) text(s string) {
	enc := json.NewEncoder(&c.out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string never fails
	c.out.Truncate(c.out.Len() - 1)
}

func at(n *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("line %d: %s", n.Line, fmt.Sprintf(format, args...))
}
