package profile

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redo-go/redo"
)

const (
	// maxCapabilities is the length of the longest document that Learn reads, in bytes.
	maxCapabilities = 1 << 20
	// maxNesting is the depth to which Learn looks into a document.
	maxNesting = 32
)

// Learn returns p with the facts about keys that an API advertises in a JSON document, such as its configuration or
// its capabilities. If the document has none of these members, found is false and p is unchanged:
//
//   - idempotency-key-lifetime, at the top or in defaults or overrides: the Retention, in whole seconds or as an ISO
//     8601 duration. Apache Iceberg REST catalogs have it.
//   - replay_ttl_seconds in an object idempotency, outside of lists and up to 32 objects deep: the Retention, in whole
//     seconds. AdCP sellers have it.
//   - supported: false in an object idempotency, likewise: NoKeys, and no KeyInBody. It wins over any retention.
//
// The shortest of several retentions counts. It replaces a shorter and a longer one of p. Learn returns p and an
// error if the document is no JSON object, has over 1 MiB, or has a member above with another value. A member that is
// null counts as absent. For a retention in a response header set p.LifetimeHeader instead.
//
// Source: https://github.com/apache/iceberg/blob/main/open-api/rest-catalog-open-api.yaml
// Source: https://github.com/adcontextprotocol/adcp/blob/main/docs/protocol/get_adcp_capabilities.mdx
func Learn(p redo.Profile, document []byte) (learned redo.Profile, found bool, err error) {
	fail := func(err error) (redo.Profile, bool, error) {
		return p, false, fmt.Errorf("profile: learning about %q: %w", p.Name, err)
	}
	if len(document) > maxCapabilities {
		return fail(fmt.Errorf("the document has %d bytes, at most %d are read", len(document), maxCapabilities))
	}
	var top members
	if err := json.Unmarshal(document, &top); err != nil || top == nil {
		return fail(errors.Join(errors.New("the document is no JSON object"), err))
	}
	a := advertised{profile: p}
	for _, m := range []members{top, top.object("defaults"), top.object("overrides")} {
		if err := a.lifetime("idempotency-key-lifetime", m["idempotency-key-lifetime"]); err != nil {
			return fail(err)
		}
	}
	if err := a.search(top, maxNesting); err != nil {
		return fail(err)
	}
	switch {
	case a.unsupported:
		p.NoKeys, p.KeyInBody = true, false
		return p, true, nil
	case a.retention > 0:
		p.Retention = a.retention
		return p, true, nil
	}
	return p, false, nil
}

// An advertised value holds the facts of a document. The zero retention means that it names none.
type advertised struct {
	profile     redo.Profile
	retention   time.Duration
	unsupported bool
}

// members are the members of a JSON object.
type members map[string]json.RawMessage

// object returns the members of an object, nil for any other value.
func (m members) object(name string) members {
	var inner members
	_ = json.Unmarshal(m[name], &inner) // it fails for another kind of value
	return inner
}

// search reads the objects named idempotency in m and below it.
func (a *advertised) search(m members, depth int) error {
	if depth == 0 {
		return nil
	}
	for name := range m {
		inner := m.object(name)
		if name == "idempotency" {
			if err := a.declaration(inner); err != nil {
				return err
			}
		}
		if err := a.search(inner, depth-1); err != nil {
			return err
		}
	}
	return nil
}

// declaration reads one object named idempotency.
func (a *advertised) declaration(m members) error {
	if raw, ok := m["supported"]; ok {
		var supported *bool
		if json.Unmarshal(raw, &supported) != nil {
			return fmt.Errorf("supported is %.64s, it must be true or false", raw)
		}
		a.unsupported = a.unsupported || supported != nil && !*supported
	}
	return a.lifetime("replay_ttl_seconds", m["replay_ttl_seconds"])
}

// lifetime reads a retention: a JSON number or string. Nil and null are none.
func (a *advertised) lifetime(name string, raw json.RawMessage) error {
	text := strings.TrimSpace(string(raw))
	if text == "" || text == "null" {
		return nil
	}
	var quoted string
	if json.Unmarshal(raw, &quoted) == nil {
		text = quoted
	}
	p, err := a.profile.WithLifetime(text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if a.retention == 0 || p.Retention < a.retention {
		a.retention = p.Retention
	}
	return nil
}
