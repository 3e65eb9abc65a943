package conformance

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/redo-go/redo/internal/wire"
)

// A Target describes the server that is tried: how to ask for its operation, how to count what it did, and how to make it
// slow, fail or restart. BaseURL and Operation have to be there; what else is left out is not tried, and the report says
// so.
//
// Texts of an operation are templates. {{payload}} is a new word for each payload and {{number}} the same as a whole
// number; {{case}} is a word of one case in one run, and {{run}} of the run. Give {{case}} to the operation (as an
// account, a tenant, a reference) and to the counter of effects: then cases can run at the same time, and traffic of others
// does no harm.
type Target struct {
	// Name is for reports.
	Name string `json:"name,omitempty"`
	// BaseURL is http or https, a host, and maybe a path. Credentials belong into headers.
	BaseURL string `json:"base_url"`
	// CAFile is a file of PEM certificates to trust instead of the system's.
	CAFile string `json:"ca_file,omitempty"`
	// Profile is the name of one of Profiles; empty is redo. It is not used when there is a CustomProfile.
	Profile string `json:"profile,omitempty"`
	// CustomProfile is a profile of the target's own.
	CustomProfile *Profile `json:"custom_profile,omitempty"`

	// Operation makes one effect for each payload.
	Operation Operation `json:"operation"`
	// Key is what the target says of its keys.
	Key Key `json:"key,omitzero"`
	// Principals are who sends: all requests are the first one's, and the second one is for the cases of scope.
	Principals []Principal `json:"principals,omitempty"`
	// Effects says how effects are counted.
	Effects *Effects `json:"effects,omitempty"`

	// Second is another operation, whose responses differ from the first one's.
	Second *Operation `json:"second_operation,omitempty"`
	// Patch is the operation's resource by PATCH.
	Patch *Operation `json:"patch,omitempty"`
	// Empty answers 204.
	Empty *Operation `json:"empty,omitempty"`
	// Large answers with 1 MiB or more.
	Large *Operation `json:"large,omitempty"`
	// Invalid is always refused with a 4xx and makes no effect.
	Invalid *Operation `json:"invalid,omitempty"`
	// Interim sends an informational response (1xx) first.
	Interim *Operation `json:"interim,omitempty"`
	// Get reads something that every effect changes.
	Get *Operation `json:"get,omitempty"`
	// Slow takes a while.
	Slow *Slow `json:"slow,omitempty"`
	// Fault fails before it makes an effect.
	Fault *Fault `json:"fault,omitempty"`
	// Limited is refused with 429. As with Fault its headers are sent with the first request only.
	Limited *Operation `json:"rate_limited,omitempty"`
	// Crash kills the handler before it makes an effect.
	Crash *Crash `json:"crash,omitempty"`
	// Expiring is kept only for a short while.
	Expiring *Expiring `json:"expiring,omitempty"`
	// Restart restarts the server.
	Restart *Restart `json:"restart,omitempty"`

	// Retention is how long the target says it keeps a key. Up to a minute, it is waited for where there is no Expiring.
	Retention Duration `json:"retention,omitzero"`
	// SecretHeaders are headers whose values are masked in the report, beside the usual ones and the principals'.
	SecretHeaders []string `json:"secret_headers,omitempty"`
	// Timeout is how long one exchange may take; zero is 10 seconds.
	Timeout Duration `json:"timeout,omitzero"`

	// TLS replaces the TLS configuration, for programs.
	TLS *tls.Config `json:"-"`
}

// A Key is what a target says of its keys.
type Key struct {
	// Header is the key's header; empty is Idempotency-Key.
	Header string `json:"header,omitempty"`
	// Required says whether the operation refuses requests without a key. Left out, it is not tried.
	Required *bool `json:"required,omitempty"`
	// MaxLength is how many bytes a key may have. Zero: none is published, and where one is needed it is 255.
	MaxLength int `json:"max_length,omitempty"`
	// Strict says that badly quoted keys are refused.
	Strict bool `json:"strict,omitempty"`
	// Quoted says that keys are sent as structured-field strings, in quotation marks.
	Quoted bool `json:"quoted,omitempty"`
	// UUID says that keys must be UUIDs.
	UUID bool `json:"uuid,omitempty"`
}

// A Principal is somebody who may send requests.
type Principal struct {
	Name    string            `json:"name,omitempty"`
	Headers map[string]string `json:"headers,omitempty"` // their values are masked in reports
}

// Slow is an operation that waits, and then makes its effect.
type Slow struct {
	Operation
	// Takes is how long it waits, at least; 200 ms is enough nearby.
	Takes Duration `json:"takes"`
}

// Fault is an operation that answers with a 5xx before it has made its effect. Its headers are what makes it fail, and are
// sent with the first request only: the retries have the same method, path and body without them.
type Fault struct {
	Operation
	// Replayed says what a retry gets: the recorded 5xx or, when false, a new run. Left out, the profile says.
	Replayed *bool `json:"replayed,omitempty"`
}

// Crash is an operation whose handler dies without an answer and before its effect. Its headers are sent with the first
// request only, as those of Fault.
type Crash struct {
	Operation
	// Lease is after how long at most a retry is let in.
	Lease Duration `json:"lease"`
}

// Expiring is an operation whose key is forgotten soon.
type Expiring struct {
	Operation
	// Retention is after how long the key is forgotten.
	Retention Duration `json:"retention"`
}

// Restart says how the server is stopped and started again.
type Restart struct {
	// Command is run without a shell. It ends when the server is being started; the harness waits until it answers.
	Command []string `json:"command,omitempty"`
	// Within is how long that may take; zero is 30 seconds.
	Within Duration `json:"within,omitzero"`
	// Func takes the command's place, for programs.
	Func func(context.Context) error `json:"-"`
}

// A Duration is a time.Duration that is a text in JSON, such as "300ms" or "24h".
type Duration time.Duration

// String returns the duration as time.Duration writes it.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is no duration such as 300ms or 24h", excerpt(string(text)))
	}
	*d = Duration(parsed)
	return nil
}

// ReadTarget reads a target's description, one JSON object, and validates it. A member that means nothing is an error,
// so that a typing error does not quietly skip cases. Errors match ErrConfig, save for those of r itself.
func ReadTarget(r io.Reader) (Target, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxTarget+1))
	if err != nil {
		return Target{}, fmt.Errorf("conformance: the target could not be read: %w", err)
	}
	if len(raw) > maxTarget {
		return Target{}, configError("the target has more than %d bytes", maxTarget)
	}
	var t Target
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&t); err != nil {
		return Target{}, configError("the target is not what it should be: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Target{}, configError("something follows the target's JSON object")
	}
	if err := t.Validate(); err != nil {
		return Target{}, err
	}
	return t, nil
}

const maxTarget = 1 << 20 // bytes

// Errors of this package, to be found with errors.Is.
var (
	// ErrConfig: the target's description or an option is wrong, or no case is selected.
	ErrConfig = errors.New("conformance: wrong configuration")
	// ErrUnreachable: no connection to the target can be made.
	ErrUnreachable = errors.New("conformance: target unreachable")
)

func configError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrConfig, fmt.Sprintf(format, args...))
}

// profile returns the profile that the target goes by.
func (t Target) profile() (Profile, error) {
	if t.CustomProfile != nil {
		p := *t.CustomProfile
		if p.Name == "" {
			p.Name = "custom"
		}
		return p, p.validate()
	}
	name := t.Profile
	if name == "" {
		name = "redo"
	}
	p, ok := profileNamed(name)
	if !ok {
		return p, fmt.Errorf("there is no profile %q", excerpt(name))
	}
	return p, nil
}

func (t Target) timeout() time.Duration {
	if t.Timeout == 0 {
		return 10 * time.Second
	}
	return time.Duration(t.Timeout)
}

func (t Target) keyHeader() string {
	if t.Key.Header == "" {
		return wire.HeaderKey
	}
	return t.Key.Header
}

func (t Target) maxKey() int {
	if t.Key.MaxLength == 0 {
		return 255
	}
	return t.Key.MaxLength
}

// base returns the URL without what can't be part of it.
func (t Target) base() (*url.URL, error) {
	u, err := url.Parse(t.BaseURL)
	switch {
	case err != nil, u.Host == "" || u.Hostname() == "", u.Scheme != "http" && u.Scheme != "https":
		// The URL is not shown: what can't be read may hold a password.
		return nil, errors.New("base_url must be an http or https URL with a host")
	case u.User != nil:
		return nil, errors.New("base_url must not hold credentials: send them in headers")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return nil, errors.New("base_url must have neither a query nor a fragment")
	}
	return u, nil
}
