package conformance

import (
	"bytes"
	"cmp"
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

// Target describes the server under test: how to send its operation, count its effects, and make it slow, fail or
// restart. BaseURL and Operation are required. Cases that need other omitted fields are skipped, and the report
// lists them.
//
// Texts of an operation are templates. {{payload}} is a new word for each payload. {{number}}, {{uuid}} and {{now}}
// are a whole number, a UUID and a time in its place. A retry has the same values. {{case}} is a word for one case in
// one run, and {{run}} is a word for the run. Use {{case}} both in the operation (as an account, a tenant, a
// reference) and in the counter of effects. Cases can then run at the same time, and other traffic does not disturb
// them.
type Target struct {
	// Name is the target's name in reports.
	Name string `json:"name,omitempty"`
	// BaseURL is http or https, a host, and maybe a path. Credentials belong in headers.
	BaseURL string `json:"base_url"`
	// CAFile is a file of PEM certificates to trust instead of the system's.
	CAFile string `json:"ca_file,omitempty"`
	// CertFile and KeyFile are the client certificate and its private key, in PEM.
	CertFile string `json:"cert_file,omitempty"`
	KeyFile  string `json:"key_file,omitempty"`
	// Insecure accepts every certificate of the target.
	Insecure bool `json:"insecure,omitempty"`
	// Profile is the name of one of [Profiles]. Empty means redo. It is ignored if CustomProfile is set.
	Profile string `json:"profile,omitempty"`
	// CustomProfile is a profile of this target's own.
	CustomProfile *Profile `json:"custom_profile,omitempty"`

	// Operation makes one effect for each payload.
	Operation Operation `json:"operation"`
	// Key describes the target's keys.
	Key Key `json:"key,omitzero"`
	// Principals lists the senders. The first one sends all requests, and the second is for the cases of scope.
	Principals []Principal `json:"principals,omitempty"`
	// Effects describes how effects are counted.
	Effects *Effects `json:"effects,omitempty"`

	// Setup prepares each payload of the operations.
	Setup []Step `json:"setup,omitempty"`

	// Second is another operation, whose responses differ from those of Operation.
	Second *Operation `json:"second_operation,omitempty"`
	// Patch is the operation's resource by PATCH.
	Patch *Operation `json:"patch,omitempty"`
	// Empty is an operation that returns 204.
	Empty *Operation `json:"empty,omitempty"`
	// Large is an operation that returns 1 MiB or more.
	Large *Operation `json:"large,omitempty"`
	// Invalid is always refused with a 4xx and makes no effect.
	Invalid *Operation `json:"invalid,omitempty"`
	// Interim sends an informational response (1xx) first.
	Interim *Operation `json:"interim,omitempty"`
	// Get reads something that every effect changes.
	Get *Operation `json:"get,omitempty"`
	// Query reads the same by QUERY. The method is QUERY.
	Query *Operation `json:"query,omitempty"`
	// Advertised is a request whose response advertises how long the target keeps keys.
	Advertised *Advertised `json:"advertised,omitempty"`
	// Origin is the origin of a web page that may send the operation from a browser, such as https://shop.example.
	Origin string `json:"origin,omitempty"`
	// Slow is an operation that takes a while.
	Slow *Slow `json:"slow,omitempty"`
	// Fault is an operation that fails before it makes an effect.
	Fault *Fault `json:"fault,omitempty"`
	// Limited is refused with 429. As with Fault, its headers are sent with the first request only.
	Limited *Operation `json:"rate_limited,omitempty"`
	// Crash kills the handler before it makes an effect.
	Crash *Crash `json:"crash,omitempty"`
	// Expiring is an operation whose key is kept only for a short time.
	Expiring *Expiring `json:"expiring,omitempty"`
	// Restart restarts the server.
	Restart *Restart `json:"restart,omitempty"`

	// Retention is the time for which the target keeps a key, according to its documentation. Without Expiring, the
	// run waits for a retention of up to a minute.
	Retention Duration `json:"retention,omitzero"`
	// SecretHeaders lists headers whose values are masked in the report, beside the usual ones and the principals'.
	SecretHeaders []string `json:"secret_headers,omitempty"`
	// Secrets maps names to texts that are masked wherever they occur in the report, for use by programs. In curl lines
	// they are shell variables with these names.
	Secrets map[string]string `json:"-"`
	// Timeout is the maximum duration of one exchange. Zero means 10 seconds.
	Timeout Duration `json:"timeout,omitzero"`

	// TLS replaces the TLS configuration, for use by programs.
	TLS *tls.Config `json:"-"`
}

// Key describes a target's keys.
type Key struct {
	// Header is the key's header. Empty means Idempotency-Key.
	Header string `json:"header,omitempty"`
	// Required states whether the operation refuses requests without a key. If it is omitted, the cases about that are
	// skipped.
	Required *bool `json:"required,omitempty"`
	// MaxLength is the maximum length of a key in bytes. Zero means that none is published. Cases that need a maximum
	// then use 255.
	MaxLength int `json:"max_length,omitempty"`
	// Strict states that badly quoted keys are refused.
	Strict bool `json:"strict,omitempty"`
	// Quoted states that keys are sent as structured-field strings, in quotation marks.
	Quoted bool `json:"quoted,omitempty"`
	// UUID states that keys must be UUIDs.
	UUID bool `json:"uuid,omitempty"`
}

// Principal is a sender of requests.
type Principal struct {
	Name    string            `json:"name,omitempty"`
	Headers map[string]string `json:"headers,omitempty"` // their values are masked in reports
}

// Slow is an operation that waits, and then makes its effect.
type Slow struct {
	Operation
	// Takes is the minimum time that it waits. On a local network 200 ms is enough.
	Takes Duration `json:"takes"`
}

// Fault is an operation that returns a 5xx before it has made its effect. Its headers cause the failure, and are
// sent with the first request only. The retries have the same method, path and body without these headers.
type Fault struct {
	Operation
	// Replayed states the result of a retry: true for the recorded 5xx, false for a new run. If it is omitted, the
	// profile decides.
	Replayed *bool `json:"replayed,omitempty"`
}

// Crash is an operation whose handler dies without a response and before its effect. As with Fault, its headers
// are sent with the first request only.
type Crash struct {
	Operation
	// Lease is the maximum time until a retry is accepted.
	Lease Duration `json:"lease"`
}

// Expiring is an operation whose key expires soon.
type Expiring struct {
	Operation
	// Retention is the time until the key expires.
	Retention Duration `json:"retention"`
}

// Advertised is a request without a key, whose response has the time for which keys are kept: whole seconds or an ISO
// 8601 duration. The time is in Header or in Member.
type Advertised struct {
	Operation
	// Header is the name of the response's header.
	Header string `json:"header,omitempty"`
	// Member is a path in the JSON of the response, such as defaults.idempotency-key-lifetime. See [Effects].
	Member string `json:"member,omitempty"`
}

// Restart describes how to stop the server and start it again.
type Restart struct {
	// Command runs without a shell. It exits once the server is starting. The harness waits until the server responds.
	Command []string `json:"command,omitempty"`
	// Within is the maximum time until the server responds. Zero means 30 seconds.
	Within Duration `json:"within,omitzero"`
	// Func replaces Command, for use by programs.
	Func func(context.Context) error `json:"-"`
}

func (r Restart) within() time.Duration { return cmp.Or(time.Duration(r.Within), 30*time.Second) }

// Duration is a time.Duration whose JSON form is a text, such as "300ms" or "24h".
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

// ReadTarget reads a target's description, one JSON object, and validates it. An unknown member is an error, so
// that a typing error does not silently skip cases. All errors match ErrConfig except those of r.
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
		return Target{}, configError("the target is malformed: %s", strings.TrimPrefix(err.Error(), "json: "))
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

// These are the errors of this package. Match them with errors.Is.
var (
	// ErrConfig means that the target's description or an option is wrong, or that no case is selected.
	ErrConfig = errors.New("conformance: wrong configuration")
	// ErrUnreachable means that no connection to the target can be made.
	ErrUnreachable = errors.New("conformance: target unreachable")
)

func configError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrConfig, fmt.Sprintf(format, args...))
}

// profile returns the profile that applies to the target.
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
		return p, unknownName{fmt.Sprintf("there is no profile %q", excerpt(name)), name, ProfileNames()}
	}
	return p, nil
}

// under returns the target with the profile's facts in place of those that it leaves out.
func (t Target) under(p Profile) Target {
	t.Key.Header = cmp.Or(t.Key.Header, p.Header)
	t.Key.MaxLength = cmp.Or(t.Key.MaxLength, p.MaxKey)
	t.Key.UUID = t.Key.UUID || p.KeyForm != AnyKey
	t.Retention = cmp.Or(t.Retention, p.Retention)
	return t
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

// origin returns the base URL without a slash at its end.
func (t Target) origin() string { return strings.TrimSuffix(t.BaseURL, "/") }

// base returns the base URL, and rejects parts that it can't have.
func (t Target) base() (*url.URL, error) {
	u, err := url.Parse(t.BaseURL)
	switch {
	case err != nil, u.Host == "" || u.Hostname() == "", u.Scheme != "http" && u.Scheme != "https":
		// The error omits the URL, because an unreadable URL may hold a password.
		return nil, errors.New("must be an http or https URL with a host")
	case u.User != nil:
		return nil, errors.New("must not hold credentials: send them in headers")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return nil, errors.New("must have neither a query nor a fragment")
	}
	return u, nil
}
