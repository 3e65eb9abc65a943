package openapi

import (
	"encoding/json"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/pb33f/go-yaml"
	"github.com/pb33f/libopenapi/datamodel/high/base"
)

// sampler makes values that schemas allow. Its nodes hold template variables.
type sampler struct {
	varies bool            // a value differs between payloads
	needed map[string]bool // environment variables
	left   int             // the number of values that may still be made
	places int             // the number of objects and lists in which vary may still search
}

const (
	maxDepth   = 12
	maxValues  = 4096
	wordLength = 24  // of {{payload}}, at most
	maxNumber  = 999 // of {{number}}, at most
	digits     = 3   // of maxNumber

	maxLevels = 3   // of objects and lists in which vary searches
	maxPlaces = 512 // in which vary searches
)

func newSampler() sampler {
	return sampler{needed: map[string]bool{}, left: maxValues, places: maxPlaces}
}

// spent reports whether the sampler has made too many values, or is too deep. Schemas and aliases may contain
// themselves.
func (s *sampler) spent(depth int) bool {
	s.left--
	return s.left < 0 || depth > maxDepth
}

// copied returns a node of the document as a literal value of JSON.
func (s *sampler) copied(n *yaml.Node, depth int) *yaml.Node {
	if s.spent(depth) {
		return scalar("!!null", "null")
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return s.copied(n.Content[0], depth+1)
	case yaml.AliasNode:
		return s.copied(n.Alias, depth+1)
	case yaml.MappingNode, yaml.SequenceNode:
		to := &yaml.Node{Kind: n.Kind}
		for i, item := range n.Content {
			if n.Kind == yaml.MappingNode && i%2 == 0 {
				to.Content = append(to.Content, scalar("!!str", literal(item.Value)))
				continue
			}
			to.Content = append(to.Content, s.copied(item, depth+1))
		}
		return to
	}
	tag := n.ShortTag()
	switch tag {
	case "!!null":
		return scalar(tag, "null")
	case "!!bool":
		return scalar(tag, strings.ToLower(n.Value))
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) { // all its digits are kept
			return scalar(tag, n.Value)
		}
		var number any
		if n.Decode(&number) == nil {
			if text, err := json.Marshal(number); err == nil {
				return scalar(tag, string(text))
			}
		}
	}
	return scalar("!!str", literal(n.Value))
}

// value returns a value of a schema: an example, or the least that the schema requires.
func (s *sampler) value(name string, proxy *base.SchemaProxy, depth int) *yaml.Node {
	if proxy == nil || s.spent(depth) {
		return scalar("!!null", "null")
	}
	all := parts(proxy, 0)
	if n := s.given(all); n != nil && !contradicts(n, proxy, 0) {
		return n
	}
	kind := ""
	for _, p := range all {
		for _, t := range p.Type {
			if kind == "" && t != "null" {
				kind = t
			}
		}
	}
	names, properties, required := members(all)
	switch {
	case kind == "object" || kind == "" && len(names) > 0:
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, name := range names {
			if required[name] {
				n.Content = append(n.Content, scalar("!!str", literal(name)), s.value(name, properties[name], depth+1))
			}
		}
		return n
	case kind == "array":
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for _, p := range all {
			if p.Items != nil && p.Items.N == 0 && len(n.Content) == 0 {
				n.Content = append(n.Content, s.value(strings.TrimSuffix(name, "s"), p.Items.A, depth+1))
			}
		}
		return n
	case kind == "boolean":
		return scalar("!!bool", "false")
	case kind == "integer" || kind == "number":
		return s.number(all)
	}
	return s.text(name, all)
}

// number returns {{number}} if the schema allows its values. Otherwise it returns the least number from 1 that the
// schema allows.
func (s *sampler) number(all []*base.Schema) *yaml.Node {
	least, most, step := math.Inf(-1), math.Inf(1), 0.0
	for _, p := range all {
		if p.Minimum != nil {
			least = max(least, *p.Minimum)
		}
		if p.Maximum != nil {
			most = min(most, *p.Maximum)
		}
		if p.MultipleOf != nil && *p.MultipleOf > 1 {
			step = *p.MultipleOf
		}
	}
	if least <= 1 && most >= maxNumber && step == 0 {
		s.varies = true
		return scalar("!!int", "{{number}}")
	}
	n := max(least, 1)
	if n > most {
		n = most
		if least > math.Inf(-1) {
			n = least
		}
	}
	if step > 0 {
		n = math.Ceil(n/step) * step
	}
	return scalar("!!int", strconv.FormatFloat(n, 'f', -1, 64))
}

// text returns a text. The id of something that must exist, and a text of a pattern, come from the environment.
func (s *sampler) text(name string, all []*base.Schema) *yaml.Node {
	format := ""
	for _, p := range all {
		if format == "" {
			format = p.Format
		}
	}
	lower := strings.ToLower(name)
	own := strings.Contains(lower, "idempot") || strings.Contains(lower, "reference") ||
		strings.Contains(lower, "request")
	value := "{{payload}}"
	switch {
	case format == "date-time":
		return scalar("!!str", "{{now}}")
	case format == "date":
		return scalar("!!str", "2030-01-31")
	case format == "uuid" && own, own && strings.Contains(lower, "idempot"):
		value = "{{uuid}}"
	case format == "email" || lower == "email":
		value = "{{payload}}@example.com"
	case format == "uri" || format == "url" || lower == "url":
		value = "https://example.com/{{payload}}"
	case format == "currency": // Stripe's format is in lower case
		return scalar("!!str", "usd")
	case isCurrency(lower) && format == "" && permits(all, "USD"):
		return scalar("!!str", "USD")
	case free(all, digits) && !free(all, wordLength) && slices.ContainsFunc(freeTexts, func(word string) bool {
		return strings.Contains(lower, word)
	}):
		value = "{{number}}"
	case !own && (strings.HasSuffix(lower, "id") || format == "uuid") || secret(lower) || !free(all, wordLength):
		return scalar("!!str", s.environment(name))
	}
	s.varies = true
	return scalar("!!str", value)
}

// isCurrency reports whether a text is the code of a currency by its name.
func isCurrency(name string) bool {
	name = strings.TrimRight(strings.TrimSuffix(name, "code"), "_-")
	return strings.HasSuffix(name, "currency")
}

// secret reports whether a text is a credential by its name.
func secret(name string) bool {
	return strings.HasSuffix(name, "token") || strings.HasSuffix(name, "secret") || strings.HasSuffix(name, "password")
}

// environment returns the reference to a variable of the environment, ${NAME}.
func (s *sampler) environment(name string) string {
	variable := strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(name))
	s.needed[variable] = true
	return "${" + variable + "}"
}

// freeTexts lists parts of the names of members whose text the server is free to ignore.
var freeTexts = []string{
	"reference", "description", "note", "memo", "comment", "title", "summary", "message", "subject", "name", "label",
	"text",
}

// vary puts {{payload}} into a text that the server is free to ignore, unless the value differs between payloads
// already. It adds an optional member if it must.
func (s *sampler) vary(n *yaml.Node, proxy *base.SchemaProxy, depth int) {
	for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		if strings.Contains(strings.ToLower(n.Content[i].Value), "idempot") { // an example's key would be everyone's
			n.Content[i+1], s.varies = scalar("!!str", "{{uuid}}"), true
		}
	}
	s.places--
	if s.varies || proxy == nil || depth > maxLevels || s.places < 0 {
		return
	}
	all := parts(proxy, 0)
	for _, p := range all {
		if n.Kind == yaml.SequenceNode && len(n.Content) > 0 && p.Items != nil && p.Items.N == 0 {
			s.vary(n.Content[0], p.Items.A, depth+1)
			return
		}
	}
	if n.Kind != yaml.MappingNode {
		return
	}
	names, properties, _ := members(all)
	for _, word := range freeTexts {
		for _, name := range names {
			lower := strings.ToLower(name)
			if strings.Contains(lower, word) && !strings.Contains(lower, "html") && literal(name) == name &&
				free(parts(properties[name], 0), wordLength) {
				s.varies = true
				put(n, name, scalar("!!str", "{{payload}}"))
				return
			}
		}
	}
	for i := 1; i < len(n.Content) && !s.varies; i += 2 {
		s.vary(n.Content[i], properties[n.Content[i-1].Value], depth+1)
	}
	for _, name := range names {
		if _, _, required := members(parts(properties[name], 0)); !s.varies && len(required) == 0 && !has(n, name) &&
			literal(name) == name {
			child := &yaml.Node{Kind: yaml.MappingNode}
			if s.vary(child, properties[name], depth+1); s.varies {
				put(n, name, child)
			}
		}
	}
}

func has(n *yaml.Node, name string) bool {
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return true
		}
	}
	return false
}

// put sets a member of an object.
func put(n *yaml.Node, name string, value *yaml.Node) {
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			n.Content[i+1] = value
			return
		}
	}
	n.Content = append(n.Content, scalar("!!str", name), value)
}

// given returns the value that a schema names itself, or nil.
func (s *sampler) given(all []*base.Schema) *yaml.Node {
	for _, p := range all {
		for _, n := range append([]*yaml.Node{p.Const, p.Example, p.Default}, append(p.Examples, p.Enum...)...) {
			if n != nil && n.Tag != "!!null" {
				return s.copied(n, 0)
			}
		}
	}
	return nil
}

func scalar(tag, value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value}
}

// jsonOf returns a node as JSON.
func jsonOf(n *yaml.Node) string {
	var items []string
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			items = append(items, quoted(n.Content[i].Value)+":"+jsonOf(n.Content[i+1]))
		}
		return "{" + strings.Join(items, ",") + "}"
	case yaml.SequenceNode:
		for _, item := range n.Content {
			items = append(items, jsonOf(item))
		}
		return "[" + strings.Join(items, ",") + "]"
	}
	switch n.ShortTag() {
	case "!!int", "!!float", "!!bool", "!!null":
		return n.Value
	}
	return quoted(n.Value)
}

func quoted(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string never fails
	return strings.NewReplacer("$"+mark, "$$", mark+"{", `\u007b`).Replace(strings.TrimSuffix(b.String(), "\n"))
}

// mark separates two characters of a document's text that would start a variable. The functions that write the text
// replace it: it is a private character of Unicode.
const mark = "\ue000"

// literal marks the texts in s that would be variables.
func literal(s string) string {
	s = strings.ReplaceAll(s, mark, "")
	var b strings.Builder
	for i := range len(s) {
		b.WriteByte(s[i])
		if (s[i] == '{' || s[i] == '$') && i+1 < len(s) && s[i+1] == '{' {
			b.WriteString(mark)
		}
	}
	return b.String()
}

// inHeader returns a marked text for the value of a header, which has no escape for two braces.
func inHeader(s string) string {
	return strings.NewReplacer("$"+mark, "$$", "{"+mark, "{ ").Replace(s)
}

// formOf returns a node as a form (application/x-www-form-urlencoded). Members of members are name[member].
func formOf(name string, n *yaml.Node) []string {
	var fields []string
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			inner := escaped(n.Content[i].Value)
			if name != "" {
				inner = name + "[" + inner + "]"
			}
			fields = append(fields, formOf(inner, n.Content[i+1])...)
		}
		return fields
	case yaml.SequenceNode:
		for _, item := range n.Content {
			fields = append(fields, formOf(name+"[]", item)...)
		}
		return fields
	}
	return []string{name + "=" + escaped(n.Value)}
}

// escaped escapes a value for a query or a form, and keeps the templates in it.
func escaped(s string) string {
	if strings.Contains(s, "{{") || strings.Contains(s, "${") {
		return s
	}
	return url.QueryEscape(strings.ReplaceAll(s, mark, ""))
}
