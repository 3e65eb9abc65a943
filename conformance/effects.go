package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redo-go/redo/internal/wire"
)

// Effects describes how to count the target's effects. Exactly one of URL, Command, ResponseID and Func must be
// set.
//
// If the URL or the command contains {{case}}, the count is that case's own. Otherwise the count covers all
// effects of the target. Then cases run one after the other, and the target must have no other users meanwhile.
type Effects struct {
	// URL is read with GET. It may be a path below the base URL. It is a template.
	URL string `json:"url,omitempty"`
	// Path selects a value in the JSON response of the URL. It consists of names and numbers with dots between them,
	// such as "data.orders.0.count". An empty path selects the whole response. The value must be a whole number, or a
	// list, whose elements are counted.
	Path string `json:"path,omitempty"`
	// Headers are sent with the GET. Their values are masked in the report.
	Headers map[string]string `json:"headers,omitempty"`
	// Command runs without a shell and prints a whole number. Each argument is a template.
	Command []string `json:"command,omitempty"`
	// ResponseID is a path in the JSON of the operation's successful responses. It selects the ID of the created
	// resource, so that different IDs are different effects. It is the weakest way to count, because it misses an
	// effect whose response was lost.
	ResponseID string `json:"response_id,omitempty"`
	// Settle is the maximum time between a response and its effect. A count waits that long for a missing effect. Zero
	// means one second.
	Settle Duration `json:"settle,omitzero"`
	// Func counts the effects of the case, for use by programs.
	Func func(ctx context.Context, caseWord string) (int, error) `json:"-"`
}

// errCounter is the error of an unreadable counter. The description is at fault, so it matches ErrConfig.
type errCounter struct{ why string }

func (e errCounter) Error() string { return "conformance: effects can't be counted: " + e.why }
func (e errCounter) Is(target error) bool {
	return target == ErrConfig
}

func counterError(format string, args ...any) error {
	return errCounter{fmt.Sprintf(format, args...)}
}

// isolated reports whether each case has its own count.
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

// apart reports whether other cases leave a case's count unchanged.
func (e *Effects) apart() bool { return e.ResponseID != "" || e.isolated() }

func (e *Effects) validate() error {
	ways := 0
	for _, set := range []bool{e.URL != "", len(e.Command) > 0, e.ResponseID != "", e.Func != nil} {
		if set {
			ways++
		}
	}
	var wrong FieldErrors
	wrong.check(ways == 1, "", "there must be one of url, command and response_id")
	wrong.check(e.Path == "" || e.URL != "", "path", "a path without a url leads nowhere")
	wrong.check(e.Settle >= 0, "settle", "%v is negative", e.Settle)
	wrong.add("url", validateTemplate(e.URL, counterVariables))
	for i, arg := range e.Command {
		wrong.add(fmt.Sprintf("command.%d", i), validateTemplate(arg, counterVariables))
	}
	if e.URL != "" {
		_, err := http.NewRequest(http.MethodGet, fill(e.URL, sampleValues), nil)
		wrong.check(err == nil, "url", "it can't be read") // it may hold a password
	}
	wrong.add("headers", validateHeaders(e.Headers))
	return wrong.err()
}

// counters returns the different counters of the target and its operations. An effect is counted by one of them, so the
// number of effects is their sum.
func (t Target) counters() []*Effects {
	if t.Effects == nil {
		return nil
	}
	all := []*Effects{t.Effects}
	for _, v := range t.variants() {
		if own := v.operation.Effects; own != nil && !slices.ContainsFunc(all, own.equal) {
			all = append(all, own)
		}
	}
	return all
}

// equal reports whether two counters are the same. Different functions never are.
func (e *Effects) equal(other *Effects) bool { return e == other || reflect.DeepEqual(e, other) }

// settle returns the longest time between a response and its effect that the description states. Zero means that it
// states none.
func (t Target) settle() time.Duration {
	var longest Duration
	for _, e := range t.counters() {
		longest = max(longest, e.Settle)
	}
	return time.Duration(longest)
}

// validateCounter checks the counter of one operation.
func (t Target) validateCounter(name string, o Operation) error {
	own := o.Effects
	switch {
	case own == nil:
		return nil
	case name == "operation":
		return errors.New("is a member of the target")
	case wire.SafeMethod(o.Method):
		return fmt.Errorf("%s makes no effect", o.Method)
	case t.Effects == nil:
		return errors.New("goes together with effects of the target")
	case t.Effects.ResponseID != "":
		return errors.New("goes together with a url or a command in effects of the target")
	case own.ResponseID != "":
		return errors.New("must have a url or a command")
	case t.Effects.isolated() && !own.isolated():
		return errors.New("must have {{case}}, as effects of the target has")
	}
	return own.validate()
}

// counterVariables are the variables of the counter's templates. A count covers all payloads of a case.
var counterVariables = []string{varCase, varRun}

// count reads all counters for a case. It is not for ResponseID, because each case counts IDs separately.
func (r *runner) count(ctx context.Context, caseWord string) (int, error) {
	sum := 0
	for _, e := range r.target.counters() {
		n, err := r.read(ctx, e, caseWord)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// read reads one counter.
func (r *runner) read(ctx context.Context, e *Effects, caseWord string) (int, error) {
	values := map[string]string{varCase: caseWord, varRun: r.nonce}
	ctx, cancel := context.WithTimeout(ctx, r.target.timeout())
	defer cancel()
	switch {
	case e.Func != nil:
		n, err := e.Func(ctx, caseWord)
		if err != nil {
			return 0, counterError("%v", err)
		}
		return n, nil
	case e.URL != "":
		return r.readURL(ctx, e, fill(e.URL, values))
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

func (r *runner) readURL(ctx context.Context, e *Effects, where string) (int, error) {
	d, path, err := r.counterAt(where)
	if err != nil {
		return 0, err
	}
	if d == r.dialer {
		where = r.target.origin() + where
	}
	req := request{method: http.MethodGet, path: path}
	for _, name := range sortedKeys(e.Headers) {
		req.fields = append(req.fields, field{name, e.Headers[name]})
	}
	a := r.exchange(ctx, d, req)
	a.excerpt = r.mask.describe(a.content())
	switch {
	case errors.Is(a.err, ErrUnreachable) && d == r.dialer:
		return 0, a.err // the target is unreachable
	case a.err != nil:
		return 0, counterError("GET %s: %v", r.mask.path(where), a.err)
	case a.status != http.StatusOK:
		return 0, counterError("GET %s: %s", r.mask.path(where), a)
	}
	n, err := numberAt(a.content(), e.Path)
	if err != nil {
		return 0, counterError("GET %s: the response %q: %v", r.mask.path(where), excerpt(string(a.content())), err)
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
	return 0, fmt.Errorf("the value at %q is neither a whole number nor a list", path)
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
			return nil, fmt.Errorf("%q leads into a value that is neither an object nor a list", name)
		}
	}
	return v, nil
}
