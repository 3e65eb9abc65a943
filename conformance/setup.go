package conformance

import (
	"errors"
	"fmt"

	"github.com/redo-go/redo/internal/wire"
)

// Step is a request that prepares a payload: a refund needs a fresh charge. All steps run, in order, before each
// payload's first request, as the principal that sends it. A retry has the same payload, so it runs no step.
//
// A step inherits nothing from the target's operation. Unless its method is safe, it is sent under a fresh key. Its
// response must be a 2xx. Its effects must not be counted, so Effects is not set.
type Step struct {
	Operation
	// Capture names the variables that the step adds to the templates of later steps and of all operations. Each value
	// is a path in the JSON of the step's response, as in Effects.Path. It must lead to a text, a number or a boolean.
	Capture map[string]string `json:"capture,omitempty"`
}

// captured returns the variables that the setup steps add.
func (t Target) captured() []string {
	var names []string
	for _, s := range t.Setup {
		names = append(names, sortedKeys(s.Capture)...)
	}
	return names
}

// setUp runs a step and adds the captured values to p.
func (t *trial) setUp(label string, s Step, p payload, by int) {
	r := t.bare(s.Operation, p)
	if !wire.SafeMethod(r.method) {
		r = t.keyed(r, t.form(t.uuid()))
	}
	if by > 0 {
		r = t.as(r, t.run.target.Principals[by])
	}
	a := t.run.exchange(t.ctx, t.run.dialer, r)
	t.show(label, "", r, a)
	err := a.err
	switch {
	case t.ctx.Err() != nil:
		panic(stopped{}) // the runner reports the end of the run
	case errors.Is(err, ErrUnreachable):
		t.unreachable(err)
	case err == nil && !a.ok():
		err = fmt.Errorf("the response was %s", a)
	}
	for _, name := range sortedKeys(s.Capture) {
		if err == nil {
			p[name], err = textAt(a.content(), s.Capture[name])
		}
	}
	if err == nil {
		return
	}
	text := fmt.Sprintf("%s, %s %s: %v", label, r.method, t.run.address(r), err)
	if t.c.Slug == slugBaseline {
		t.run.halt(StopConfig, configError("%s", text))
	}
	t.inconclusive("%s", text)
}

// textAt returns the text, number or boolean at the path.
func textAt(doc []byte, path string) (string, error) {
	v, err := valueAt(doc, path)
	if err != nil {
		return "", fmt.Errorf("the response has nothing at %q: %w", path, err)
	}
	switch v.(type) {
	case map[string]any, []any, nil:
		return "", fmt.Errorf("the response has neither a text nor a number nor a boolean at %q", path)
	}
	return fmt.Sprint(v), nil
}

// another returns a payload for a second operation that is to have the same payload as p. A payload that needs a setup
// is good for one operation only, so the result is then a fresh one.
func (t *trial) another(p payload) payload {
	if len(t.run.target.Setup) > 0 {
		return t.payload()
	}
	return p
}

// address returns the URL of a request, with secrets masked.
func (r *runner) address(q request) string {
	return r.target.origin() + r.mask.path(q.path)
}
