// Package openapi writes conformance targets from OpenAPI documents of version 3.
package openapi

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/pb33f/go-yaml"
	"github.com/pb33f/libopenapi"
	"github.com/pb33f/libopenapi/datamodel"
	"github.com/pb33f/libopenapi/datamodel/high/base"
	"github.com/pb33f/libopenapi/datamodel/high/v3"

	"github.com/redo-go/redo/cmd/redo/internal/nearest"
	"github.com/redo-go/redo/conformance"
)

// Target describes one operation of an OpenAPI document. The operation is named by its operationId, or by its method
// and path, such as "POST /orders". The notes list the facts that the document leaves open.
//
// References to other files are not followed. No text of the document is a variable in the target: a document can't
// read the environment of its user.
func Target(document []byte, operation string) (target conformance.Target, notes []string, err error) {
	if err := odd(document); err != nil {
		return target, nil, err
	}
	doc, err := libopenapi.NewDocumentWithConfiguration(document, &datamodel.DocumentConfiguration{
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), SkipCircularReferenceCheck: true,
	})
	if err != nil {
		return target, nil, fmt.Errorf("the document can't be read: %w", err)
	}
	model, err := doc.BuildV3Model()
	if model == nil {
		return target, nil, fmt.Errorf("the document is no OpenAPI 3: %w", err)
	}
	w := &writer{model: &model.Model, sampler: newSampler()}
	if err != nil {
		w.note("a part of the document could not be read, such as a reference to another file: join the files, or " +
			"compare the target with the document")
	}
	if err := w.find(operation); err != nil {
		return target, nil, err
	}
	w.target.Name, w.target.Profile = operation, "ietf"
	w.server()
	w.target.Operation = conformance.Operation{Method: strings.ToUpper(w.method), Headers: map[string]string{}}
	w.body()
	w.parameters()
	w.security()
	w.effects()
	if !w.varies {
		w.note("no text of the request differs between two payloads: put {{payload}} or {{number}} where the server " +
			"allows any")
	}
	if len(w.needed) > 0 {
		w.note("set in the environment: %s", strings.Join(slices.Sorted(maps.Keys(w.needed)), ", "))
	}
	return w.target, w.notes, w.target.Validate()
}

// odd returns an error for a document that is no OpenAPI 3. The texts of the library presuppose its API.
func odd(document []byte) error {
	var root yaml.Node
	if err := yaml.Unmarshal(document, &root); err != nil {
		return fmt.Errorf("the document is neither YAML nor JSON: %w", err)
	}
	if len(root.Content) == 0 || root.Content[0].ShortTag() == "!!null" {
		return errors.New("the document is empty")
	}
	var head struct {
		OpenAPI yaml.Node `yaml:"openapi"`
		Swagger yaml.Node `yaml:"swagger"`
	}
	switch err := root.Content[0].Decode(&head); {
	case root.Content[0].Kind != yaml.MappingNode:
		return errors.New("the document is no OpenAPI 3: it is no object")
	case err != nil:
		return fmt.Errorf("the document can't be read: %w", err)
	case head.OpenAPI.IsZero() && !head.Swagger.IsZero():
		return fmt.Errorf("the document is no OpenAPI 3: it is Swagger %s", head.Swagger.Value)
	case head.OpenAPI.IsZero():
		return errors.New(`the document is no OpenAPI 3: it has no member "openapi"`)
	case head.OpenAPI.Value != "3" && !strings.HasPrefix(head.OpenAPI.Value, "3."):
		return fmt.Errorf("the document is no OpenAPI 3: line %d: its member \"openapi\" is %q", head.OpenAPI.Line,
			head.OpenAPI.Value)
	}
	return nil
}

// writer holds the parts of a target that is being written.
type writer struct {
	sampler
	model     *v3.Document
	path      string
	method    string
	item      *v3.PathItem
	operation *v3.Operation
	target    conformance.Target
	notes     []string
}

func (w *writer) note(format string, args ...any) {
	w.notes = append(w.notes, fmt.Sprintf(format, args...))
}

// find finds the operation.
func (w *writer) find(name string) error {
	var names []string
	if w.model.Paths != nil {
		for path, item := range w.model.Paths.PathItems.FromOldest() {
			if item == nil {
				continue
			}
			for method, op := range item.GetOperations().FromOldest() {
				full := strings.ToUpper(method) + " " + path
				if op != nil && (op.OperationId == name && name != "" || full == name) {
					w.path, w.method, w.item, w.operation = path, method, item, op
					return nil
				}
				names = append(names, full)
				if op != nil && op.OperationId != "" {
					names = append(names, op.OperationId)
				}
			}
		}
	}
	if len(names) == 0 {
		return fmt.Errorf("the document has no operation %q: it has none", name)
	}
	return fmt.Errorf("the document has no operation %q%s", name, nearest.DidYouMean(name, names))
}

// server sets the base URL. A relative URL keeps its path.
func (w *writer) server() {
	w.target.BaseURL = "http://localhost:8080"
	for _, servers := range [][]*v3.Server{w.operation.Servers, w.item.Servers, w.model.Servers} {
		if len(servers) == 0 || servers[0] == nil {
			continue
		}
		address := servers[0].URL
		for name, v := range servers[0].Variables.FromOldest() {
			if v != nil {
				address = strings.ReplaceAll(address, "{"+name+"}", v.Default)
			}
		}
		u, err := url.Parse(address)
		if err != nil || u.RawQuery != "" {
			continue
		}
		address = inHeader(literal(strings.TrimSuffix(address, "/")))
		if u.Host != "" {
			w.target.BaseURL = address
			return
		}
		if strings.HasPrefix(address, "/") {
			w.target.BaseURL += address
		}
		break
	}
	w.note("the document has no absolute server URL: set base_url")
}

// body writes the request's body: the document's example, or the least that the schema requires.
func (w *writer) body() {
	if w.operation.RequestBody == nil || w.operation.RequestBody.Content == nil {
		return
	}
	form, types := "application/x-www-form-urlencoded", w.operation.RequestBody.Content
	for _, wanted := range []string{"application/json", "json", form} {
		for name, media := range types.FromOldest() {
			if !strings.Contains(name, wanted) || media == nil {
				continue
			}
			n := w.example(media.Example, media.Examples.FromOldest(), media.Schema)
			if all := parts(media.Schema, 0); n == nil && untyped(all) && w.given(all) == nil {
				n = &yaml.Node{Kind: yaml.MappingNode}
				w.note("the document has no schema of the body: write it by hand")
			}
			if n == nil {
				n = w.value("", media.Schema, 0)
			}
			if wanted != form {
				w.keyMember(n, media.Schema)
			}
			w.vary(n, media.Schema, 0)
			w.target.Operation.Headers["Content-Type"] = inHeader(literal(strings.ReplaceAll(name, "*", "json")))
			text := jsonOf(n)
			if wanted == form {
				text = strings.Join(formOf("", n), "&")
			}
			w.target.Operation.Body = conformance.Body(text)
			return
		}
	}
	w.note("the body is neither JSON nor a form: write it by hand")
}

// example returns the first example that does not contradict the schema, or nil. The candidates are n and then others.
func (w *writer) example(n *yaml.Node, others iter.Seq2[string, *base.Example], schema *base.SchemaProxy) *yaml.Node {
	candidates := []*yaml.Node{n}
	for _, example := range others {
		if example != nil {
			candidates = append(candidates, example.Value)
		}
	}
	for _, n := range candidates {
		if n != nil && !contradicts(n, schema, 0) {
			return w.copied(n, 0)
		}
	}
	return nil
}

// all returns the parameters of the path and of the operation. The operation's replace those of the path.
func (w *writer) all() []*v3.Parameter {
	same := func(p *v3.Parameter) func(*v3.Parameter) bool {
		return func(other *v3.Parameter) bool { return other != nil && other.Name == p.Name && other.In == p.In }
	}
	return slices.DeleteFunc(slices.Concat(w.item.Parameters, w.operation.Parameters), func(p *v3.Parameter) bool {
		return p == nil || slices.Contains(w.item.Parameters, p) && slices.ContainsFunc(w.operation.Parameters, same(p))
	})
}

// pathName matches the name of a parameter in a path.
var pathName = regexp.MustCompile(`\{([^{}]+)\}`)

// notParameters lists the headers whose parameters have no meaning in OpenAPI.
var notParameters = []string{"Accept", "Content-Type", "Authorization"}

// parameters writes the path, the query and the headers, and describes the key.
func (w *writer) parameters() {
	query := []string{}
	values := map[string]string{} // of the path's parameters
	for _, p := range w.all() {
		required := p.Required != nil && *p.Required
		if p.In == "header" && isKey(p) {
			if !strings.EqualFold(p.Name, "Idempotency-Key") {
				w.target.Key.Header = p.Name
			}
			w.key(p.Schema, required)
			continue
		}
		if !required && p.In != "path" || p.In == "header" && slices.ContainsFunc(notParameters,
			func(name string) bool {
				return strings.EqualFold(name, p.Name)
			}) {
			continue
		}
		n := w.example(p.Example, p.Examples.FromOldest(), p.Schema)
		if n == nil {
			n = w.given(parts(p.Schema, 0))
		}
		switch {
		case n == nil && (p.In == "path" || p.In == "cookie"):
			n = scalar("!!str", w.environment(p.Name)) // its resource or its session must exist
		case n == nil:
			n = w.value(p.Name, p.Schema, 0)
		}
		switch p.In {
		case "path":
			values[p.Name] = strings.ReplaceAll(escaped(n.Value), "+", "%20")
		case "query":
			query = append(query, formOf(escaped(literal(p.Name)), n)...)
		case "header":
			w.target.Operation.Headers[p.Name] = inHeader(n.Value)
		case "cookie":
			addCookie(w.target.Operation.Headers, p.Name+"="+inHeader(n.Value))
		}
	}
	path := pathName.ReplaceAllStringFunc(w.path, func(s string) string {
		name := s[1 : len(s)-1]
		if value, ok := values[name]; ok {
			return value
		}
		return w.environment(name)
	})
	if len(query) > 0 {
		path += "?" + strings.Join(query, "&")
	}
	w.target.Operation.Path = path
	if !w.keyed() && w.target.CustomProfile == nil {
		w.note("the document names no header for keys: Idempotency-Key is sent")
	}
}

// addCookie adds a cookie to the Cookie header.
func addCookie(headers map[string]string, cookie string) {
	headers["Cookie"] = strings.TrimPrefix(headers["Cookie"]+"; "+cookie, "; ")
}

// isKey reports whether a header carries the key.
func isKey(p *v3.Parameter) bool {
	name, description := strings.ToLower(p.Name), strings.ToLower(p.Description)
	return strings.Contains(name, "idempoten") || strings.HasSuffix(name, "request-id") &&
		(strings.Contains(description, "idempoten") || strings.Contains(description, "stores keys")) // PayPal's words
}

// keyed reports whether a header of the operation carries the key.
func (w *writer) keyed() bool {
	return slices.ContainsFunc(w.all(), func(p *v3.Parameter) bool { return p.In == "header" && isKey(p) })
}

// keyMember describes a key that is a member of the body, if no header carries it. The run adds the member.
func (w *writer) keyMember(n *yaml.Node, schema *base.SchemaProxy) {
	names, properties, required := members(parts(schema, 0))
	for _, name := range names {
		if !inBody(name) || n.Kind != yaml.MappingNode || w.keyed() || w.target.CustomProfile != nil {
			continue
		}
		for i := 0; i < len(n.Content); i += 2 {
			if n.Content[i].Value == name {
				n.Content = slices.Delete(n.Content, i, i+2)
				break
			}
		}
		w.target.Profile = ""
		w.target.CustomProfile = &conformance.Profile{
			Name: "own", KeyMember: name, Mismatch: []int{400, 409, 422}, InFlight: []int{409, 425},
			MissingKey: []int{400, 422}, MalformedKey: []int{400, 422},
		}
		w.key(properties[name], required[name])
		w.note("the key is the member %s of the body; custom_profile allows the usual statuses: replace them by those "+
			"of the API", name)
	}
}

// inBody reports whether a member of a body is a key by its name. A dot would make the name a path.
func inBody(name string) bool {
	return strings.Contains(strings.ToLower(name), "idempot") && !strings.Contains(name, ".") && literal(name) == name
}

// key describes the key by its schema.
func (w *writer) key(schema *base.SchemaProxy, required bool) {
	w.target.Key.Required = &required
	for _, s := range parts(schema, 0) {
		w.target.Key.UUID = w.target.Key.UUID || s.Format == "uuid"
		if s.MaxLength != nil && *s.MaxLength >= 36 && *s.MaxLength < 1<<16 {
			w.target.Key.MaxLength = int(*s.MaxLength)
		}
	}
}

// security writes the credentials of the first scheme that the operation accepts.
func (w *writer) security() {
	security := w.operation.Security
	if security == nil {
		security = w.model.Security
	}
	if len(security) == 0 || security[0] == nil || w.model.Components == nil {
		return
	}
	headers := map[string]string{}
	for name := range security[0].Requirements.FromOldest() {
		scheme := w.model.Components.SecuritySchemes.GetOrZero(name)
		switch {
		case scheme == nil:
		case scheme.Type == "apiKey" && scheme.In == "header":
			headers[scheme.Name] = w.environment(scheme.Name)
		case scheme.Type == "apiKey" && scheme.In == "query":
			w.target.Operation.Path += map[bool]string{true: "&", false: "?"}[strings.Contains(w.target.Operation.Path,
				"?")] +
				escaped(literal(scheme.Name)) + "=" + w.environment(scheme.Name)
		case scheme.Type == "apiKey":
			addCookie(headers, inHeader(literal(scheme.Name))+"="+w.environment(scheme.Name))
		case scheme.Type == "http" && strings.EqualFold(scheme.Scheme, "basic"):
			headers["Authorization"] = "Basic " + w.environment("basic_credentials")
		case scheme.Type == "mutualTLS":
			w.note("the server wants a client certificate: set cert_file and key_file")
		default:
			headers["Authorization"] = "Bearer " + w.environment("token")
		}
	}
	if len(headers) > 0 {
		w.target.Principals = []conformance.Principal{{Headers: headers}}
	}
}

// effects counts effects by the id in the response.
func (w *writer) effects() {
	if w.operation.Responses != nil {
		for code, response := range w.operation.Responses.Codes.FromOldest() {
			if !strings.HasPrefix(code, "2") || response == nil || response.Content == nil {
				continue
			}
			for name, media := range response.Content.FromOldest() {
				if media == nil || !strings.Contains(name, "json") {
					continue
				}
				if id := idIn(media.Schema, 0); id != "" {
					w.target.Effects = &conformance.Effects{ResponseID: id}
					w.note("effects are counted by %s in the response, which misses an effect whose response was "+
						"lost: a url "+
						"or a command that counts is better", id)
					return
				}
			}
		}
	}
	w.note("nothing counts effects: add effects, or most rules stay unproved")
}

// idIn returns the path to the id in a response, or "".
func idIn(proxy *base.SchemaProxy, depth int) string {
	names, properties, required := members(parts(proxy, 0))
	slices.SortStableFunc(names, func(a, b string) int { // those that are always there come first
		return map[bool]int{true: 0, false: 1}[required[a]] - map[bool]int{true: 0, false: 1}[required[b]]
	})
	for _, fits := range []func(string) bool{
		func(s string) bool { return s == "id" || s == "gid" },
		func(s string) bool {
			return strings.HasSuffix(s, "_id") && s != "request_id" || strings.HasSuffix(s, "Id") && s != "requestId"
		},
		func(s string) bool { return strings.HasSuffix(s, "Reference") && s != "merchantReference" },
	} {
		for _, name := range names {
			if fits(name) {
				return name
			}
		}
	}
	if depth > 0 {
		return ""
	}
	for _, name := range names {
		if id := idIn(properties[name], depth+1); id != "" {
			return name + "." + id
		}
	}
	return ""
}
