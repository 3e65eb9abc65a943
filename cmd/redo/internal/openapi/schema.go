package openapi

import (
	"regexp"
	"slices"

	"github.com/pb33f/go-yaml"
	"github.com/pb33f/libopenapi/datamodel/high/base"
	"github.com/pb33f/libopenapi/orderedmap"
)

// free reports whether a schema allows every text of a length.
func free(all []*base.Schema, length int64) bool {
	typed := false
	for _, p := range all {
		typed = typed || slices.Contains(p.Type, "string")
		if p.Pattern != "" || p.Format != "" || p.Enum != nil || p.Const != nil ||
			p.MaxLength != nil && *p.MaxLength < length || p.MinLength != nil && *p.MinLength > length/2 {
			return false
		}
	}
	return typed
}

// permits reports whether a schema allows a text. A pattern that Go can't read allows none.
func permits(all []*base.Schema, text string) bool {
	for _, p := range all {
		pattern, err := regexp.Compile(p.Pattern)
		if err != nil || !pattern.MatchString(text) || p.Enum != nil || p.Const != nil ||
			p.MaxLength != nil && *p.MaxLength < int64(len(text)) ||
			p.MinLength != nil && *p.MinLength > int64(len(text)) {
			return false
		}
	}
	return true
}

// untyped reports whether a schema allows values of every type.
func untyped(all []*base.Schema) bool {
	return !slices.ContainsFunc(all, func(p *base.Schema) bool {
		return len(p.Type) > 0 || orderedmap.Len(p.Properties) > 0
	})
}

// parts returns a schema with the schemas that it consists of. Of alternatives it takes the first.
func parts(proxy *base.SchemaProxy, depth int) []*base.Schema {
	if proxy == nil || depth > maxDepth {
		return nil
	}
	schema := proxy.Schema()
	if schema == nil {
		return nil
	}
	all := []*base.Schema{schema}
	for _, p := range schema.AllOf {
		all = append(all, parts(p, depth+1)...)
	}
	for _, choice := range [][]*base.SchemaProxy{schema.OneOf, schema.AnyOf} {
		if len(choice) > 0 {
			all = append(all, parts(choice[0], depth+1)...)
		}
	}
	return all
}

// members returns the properties of an object.
func members(all []*base.Schema) (names []string, properties map[string]*base.SchemaProxy, required map[string]bool) {
	properties, required = map[string]*base.SchemaProxy{}, map[string]bool{}
	for _, p := range all {
		for _, name := range p.Required {
			required[name] = true
		}
		for name, proxy := range p.Properties.FromOldest() {
			if properties[name] == nil {
				names = append(names, name)
			}
			properties[name] = proxy
		}
	}
	return names, properties, required
}

// contradicts reports whether an object lacks a member that its schema requires, or has one that the schema excludes.
// Alternatives are not compared.
func contradicts(n *yaml.Node, proxy *base.SchemaProxy, depth int) bool {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.MappingNode || proxy == nil || depth > maxDepth {
		return false
	}
	schema := proxy.Schema()
	if schema == nil {
		return false
	}
	more := schema.AdditionalProperties
	closed := more != nil && more.N == 1 && !more.B && orderedmap.Len(schema.PatternProperties) == 0
	for i := 0; closed && i < len(n.Content); i += 2 {
		if orderedmap.Len(schema.Properties) == 0 || schema.Properties.GetOrZero(n.Content[i].Value) == nil {
			return true
		}
	}
	return slices.ContainsFunc(schema.Required, func(name string) bool { return !has(n, name) }) ||
		slices.ContainsFunc(schema.AllOf, func(p *base.SchemaProxy) bool { return contradicts(n, p, depth+1) })
}
