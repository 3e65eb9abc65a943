package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Effects says how the target's effects are counted. Exactly one of URL, Command, ResponseID and Func is set.
//
// With {{case}} in the URL or the command the count is that case's own. Without it everything that the target does is
// counted, cases run one after the other, and nobody else may use the target meanwhile.
type Effects struct {
	// URL is read with GET. It may be a path below the base URL. It is a template.
	URL string `json:"url,omitempty"`
	// Path leads into the JSON that the URL answers with: names and numbers with dots between them, such as
	// "data.orders.0.count". Empty is the whole answer. What stands there is a whole number, or a list that is counted.
	Path string `json:"path,omitempty"`
	// Headers are sent with the GET. Their values are masked in the report.
	Headers map[string]string `json:"headers,omitempty"`
	// Command is run without a shell, each argument a template, and prints a whole number.
	Command []string `json:"command,omitempty"`
	// ResponseID is a path into the JSON of the operation's successful responses. It leads to the id of what was made, so
	// that different ids are different effects. An effect whose response was never seen is not counted: it is the
	// weakest way.
	ResponseID string `json:"response_id,omitempty"`
	// Settle is how long an effect may come after its response; it is waited before each count. Zero is none.
	Settle Duration `json:"settle,omitzero"`
	// Func counts the effects of the case, for programs.
	Func func(ctx context.Context, caseWord string) (int, error) `json:"-"`
}

// errCounter is the error of a counter that can't be read. It is the description's fault, so it matches ErrConfig.
type errCounter struct{ why string }

func (e errCounter) Error() string { return "conformance: effects can't be counted: " + e.why }
func (e errCounter) Is(target error) bool {
	return target == ErrConfig
}

func counterError(format string, args ...any) error {
	return errCounter{fmt.Sprintf(format, args...)}
}

// isolated reports whether each case has a count of its own.
func (e *Effects) isolated() bool {
	if e.Func != nil || uses(e.URL, varCase) {
		return true
	}
	for _, arg := range e.Command {
		if uses(arg, varCase) {
			return true
		}
	}
	return false
}

func effectsText(n int) string {
	if n == 1 {
		return "1 effect"
	}
	return fmt.Sprintf("%d effects", n)
}

// apart reports whether a case's count is untouched by other cases.
func (e *Effects) apart() bool { return e.ResponseID != "" || e.isolated() }

func (e *Effects) validate() error {
	ways := 0
	for _, set := range []bool{e.URL != "", len(e.Command) > 0, e.ResponseID != "", e.Func != nil} {
		if set {
			ways++
		}
	}
	if ways != 1 {
		return errors.New("there must be one of url, command and response_id")
	}
	if e.Path != "" && e.URL == "" {
		return errors.New("a path without a url leads nowhere")
	}
	if e.Settle < 0 {
		return fmt.Errorf("settle %v is negative", e.Settle)
	}
	for _, s := range append([]string{e.URL}, e.Command...) {
		if _, err := parseTemplate(s); err != nil {
			return err
		}
	}
	if e.URL != "" {
		if _, err := http.NewRequest(http.MethodGet, fill(e.URL, sampleValues), nil); err != nil {
			return errors.New("the url can't be read") // it may hold a password
		}
	}
	return validateHeaders(e.Headers)
}

// count reads the counter. It is not for ResponseID, which each case counts by itself.
func (r *runner) count(ctx context.Context, values map[string]string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, r.target.timeout())
	defer cancel()
	e := r.target.Effects
	switch {
	case e.Func != nil:
		n, err := e.Func(ctx, values[varCase])
		if err != nil {
			return 0, counterError("%v", err)
		}
		return n, nil
	case e.URL != "":
		return r.countURL(ctx, fill(e.URL, values))
	}
	args := make([]string, len(e.Command))
	for i, arg := range e.Command {
		args[i] = fill(arg, values)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return 0, counterError("the command %s: %v", excerpt(args[0]), err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		return 0, counterError("the command printed %q, which is no whole number", excerpt(string(out)))
	}
	return n, nil
}

func (r *runner) countURL(ctx context.Context, where string) (int, error) {
	d, path, err := r.counterAt(where)
	if err != nil {
		return 0, err
	}
	req := request{method: http.MethodGet, path: path}
	for _, name := range sortedKeys(r.target.Effects.Headers) {
		req.fields = append(req.fields, field{name, r.target.Effects.Headers[name]})
	}
	a := d.exchange(ctx, req)
	switch {
	case errors.Is(a.err, ErrUnreachable) && d == r.dialer:
		return 0, a.err // the target is what is not there
	case a.err != nil:
		return 0, counterError("no answer from the counter: %v", a.err)
	case a.status != http.StatusOK:
		return 0, counterError("the counter answered %d", a.status)
	}
	n, err := numberAt(a.body, r.target.Effects.Path)
	if err != nil {
		return 0, counterError("the counter's answer %q: %v", excerpt(string(a.body)), err)
	}
	return n, nil
}

// numberAt returns the whole number at the path, or the length of the list.
func numberAt(doc []byte, path string) (int, error) {
	v, err := valueAt(doc, path)
	if err != nil {
		return 0, err
	}
	switch v := v.(type) {
	case json.Number:
		n, err := strconv.Atoi(v.String())
		if err != nil {
			return 0, fmt.Errorf("%s is no whole number", v)
		}
		return n, nil
	case []any:
		return len(v), nil
	}
	return 0, fmt.Errorf("what stands at %q is neither a whole number nor a list", path)
}

// valueAt follows a path of names and indices with dots between them.
func valueAt(doc []byte, path string) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, errors.New("it is no JSON")
	}
	if path == "" {
		return v, nil
	}
	for name := range strings.SplitSeq(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			member, ok := in[name]
			if !ok {
				return nil, fmt.Errorf("there is no member %q", name)
			}
			v = member
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(in) {
				return nil, fmt.Errorf("a list of %d has no element %q", len(in), name)
			}
			v = in[i]
		default:
			return nil, fmt.Errorf("%q leads into what is neither an object nor a list", name)
		}
	}
	return v, nil
}
