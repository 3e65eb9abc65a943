package conformance

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/redo-go/redo/internal/wire"
)

// maxWait is the longest retention that a run waits for.
const maxWait = time.Minute

// Validate returns nil, or FieldErrors that list every fault of the description. Run calls Validate.
func (t Target) Validate() error {
	var wrong FieldErrors
	_, err := t.base()
	wrong.add("base_url", err)
	p, err := t.profile()
	if t.CustomProfile != nil {
		wrong.add("custom_profile", err)
	} else {
		wrong.add("profile", err)
	}
	wrong.check((t.CertFile == "") == (t.KeyFile == ""), "cert_file", "goes together with key_file")
	known := variables
	for i, s := range t.Setup {
		field := fmt.Sprintf("setup.%d", i)
		wrong.add(field, s.validate(known, t.keyHeader()))
		wrong.check(s.Effects == nil, field+".effects", "the effects of a setup step are not counted")
		for _, name := range sortedKeys(s.Capture) {
			wrong.check(variableName.MatchString(name), field+".capture", "%q is no name of a variable", name)
			wrong.check(!slices.Contains(known, name), field+".capture", "there is a variable {{%s}} already", name)
		}
		known = append(known[:len(known):len(known)], sortedKeys(s.Capture)...)
	}
	err = t.Operation.validate(known, t.keyHeader())
	wrong.add("operation", err)
	wrong.add("operation.effects", t.validateCounter("operation", t.Operation))
	for _, v := range t.variants() {
		names := known
		if v.name == "advertised" {
			names = variables // it is sent without a setup
		}
		if err == nil {
			o := v.operation.over(t.Operation)
			wrong.add(v.name, o.validate(names, t.keyHeader()))
			wrong.add(v.name+".effects", t.validateCounter(v.name, o))
		}
	}
	_, err = withMember([]byte(fill(string(t.Operation.Body), t.sample())), p.KeyMember, "k")
	wrong.add("operation.body", err)
	method := t.Operation.Method
	wrong.check(method == "" || !wire.SafeMethod(method), "operation.method", "%s makes no effect", method)
	wrong.check(t.Key.MaxLength == 0 || t.Key.MaxLength >= minKey, "key.max_length",
		"%d is less than %d, too short for "+
			"keys that don't collide", t.Key.MaxLength, minKey)
	if t.Key.Header != "" {
		wrong.add("key.header", wire.CheckKeyHeader(t.Key.Header))
	}
	for i, p := range t.Principals {
		wrong.add(fmt.Sprintf("principals.%d.headers", i), validateHeaders(p.Headers))
	}
	for _, name := range t.SecretHeaders {
		wrong.check(wire.Token(name), "secret_headers", "%q is no header name", name)
	}
	wrong.check(t.Timeout >= 0, "timeout", "%v is negative", t.Timeout)
	wrong.check(t.Retention >= 0, "retention", "%v is negative", t.Retention)
	if t.Effects != nil {
		wrong.add("effects", t.Effects.validate())
		wrong.check(!t.Effects.isolated() || t.Operation.uses(varCase), "effects",
			"they are counted by {{case}}, and the operation does not have {{case}} in its path or body")
	}
	if t.Slow != nil {
		wrong.check(time.Duration(t.Slow.Takes) < t.timeout(), "slow.takes", "%v must be less than the timeout, %v",
			t.Slow.Takes, t.timeout())
		wrong.check(t.Slow.Takes >= Duration(50*time.Millisecond), "slow.takes", "%v must be 50ms or more",
			t.Slow.Takes)
	}
	if t.Crash != nil {
		wrong.check(t.Crash.Lease > 0, "crash.lease", "%v is not positive", t.Crash.Lease)
	}
	if t.Expiring != nil {
		wrong.check(t.Expiring.Retention > 0, "expiring.retention", "%v is not positive", t.Expiring.Retention)
		wrong.check(t.Expiring.Retention <= Duration(maxWait), "expiring.retention",
			"%v is longer than %v, too long to wait for", t.Expiring.Retention, maxWait)
	}
	if t.Query != nil {
		wrong.check(t.Query.Method == wire.MethodQuery, "query.method", "%q must be QUERY", t.Query.Method)
	}
	if a := t.Advertised; a != nil {
		wrong.check((a.Header == "") != (a.Member == ""), "advertised", "there must be one of header and member")
		wrong.check(a.Header == "" || wire.Token(a.Header), "advertised.header", "%q is no header name", a.Header)
	}
	if t.Origin != "" {
		wrong.add("origin", validateOrigin(t.Origin))
	}
	if t.Restart != nil {
		wrong.check((len(t.Restart.Command) > 0) != (t.Restart.Func != nil), "restart", "there must be one command")
		wrong.check(t.Restart.Within >= 0, "restart.within", "%v is negative", t.Restart.Within)
	}
	return wrong.err()
}

// validateOrigin returns an error for a text that no browser sends as an Origin.
func validateOrigin(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme == "" || u.Host == "" || s != u.Scheme+"://"+u.Host {
		return fmt.Errorf("%q is no origin such as https://shop.example", s)
	}
	return nil
}

// variant is one of the operations that a target may have beside its main one.
type variant struct {
	name      string
	operation Operation
}

func (t Target) variants() []variant {
	var all []variant
	add := func(name string, o *Operation) {
		if o != nil {
			all = append(all, variant{name, *o})
		}
	}
	add("second_operation", t.Second)
	add("patch", t.Patch)
	add("empty", t.Empty)
	add("large", t.Large)
	add("invalid", t.Invalid)
	add("interim", t.Interim)
	add("get", t.Get)
	add("query", t.Query)
	if t.Advertised != nil {
		add("advertised", &t.Advertised.Operation)
	}
	add("rate_limited", t.Limited)
	if t.Slow != nil {
		add("slow", &t.Slow.Operation)
	}
	if t.Fault != nil {
		add("fault", &t.Fault.Operation)
	}
	if t.Crash != nil {
		add("crash", &t.Crash.Operation)
	}
	if t.Expiring != nil {
		add("expiring", &t.Expiring.Operation)
	}
	return all
}

// declares reports whether the target has the given need.
func (t Target) declares(n Need, p Profile) bool {
	switch n {
	case NeedEffects:
		return t.Effects != nil
	case NeedSlow:
		return t.Slow != nil
	case NeedPrincipal:
		return len(t.Principals) >= 2
	case NeedFault:
		return t.Fault != nil
	case NeedLimit:
		return t.Limited != nil
	case NeedCrash:
		return t.Crash != nil
	case NeedExpiry:
		return t.Expiring != nil || t.Retention > 0 && t.Retention <= Duration(maxWait)
	case NeedRestart:
		return t.Restart != nil
	case NeedKeyRequired:
		return t.Key.Required != nil && *t.Key.Required
	case NeedKeyOptional:
		return t.Key.Required != nil && !*t.Key.Required
	case NeedKeyStrict:
		return t.Key.Strict
	case NeedKeyLimit:
		return t.Key.MaxLength > 0
	case NeedFreeKeys:
		return !t.Key.UUID
	case NeedPayloads:
		return t.Operation.uses(append(t.captured(), varPayload, varNumber, varUUID)...)
	case NeedBody:
		return len(t.Operation.Body) >= 2
	case NeedJSON:
		return reorder([]byte(fill(string(t.Operation.Body), t.sample()))) != nil
	case NeedSecond:
		return t.Second != nil
	case NeedPatch:
		return t.Patch != nil
	case NeedEmpty:
		return t.Empty != nil
	case NeedLarge:
		return t.Large != nil
	case NeedInvalid:
		return t.Invalid != nil
	case NeedInterim:
		return t.Interim != nil
	case NeedGet:
		return t.Get != nil
	case NeedQueryMethod:
		return t.Query != nil
	case NeedOrigin:
		return t.Origin != ""
	case NeedAdvertised:
		return t.Advertised != nil
	case NeedHeader:
		return p.KeyMember == ""
	case NeedOnePayload:
		return !p.AnyPayload
	case NeedOneBody:
		return !p.NewBody
	case NeedProblems:
		return p.Problems
	case NeedCodes:
		return p.Codes
	case NeedBothForms:
		return p.BothForms
	case NeedQuery:
		return p.Query
	case NeedFirst:
		return p.MismatchFirst
	}
	return false
}

// minKey is the length of the harness's own keys, which are UUIDs.
const minKey = 36

// sample returns values that fill the templates of the target's operations.
func (t Target) sample() map[string]string {
	values := maps.Clone(sampleValues)
	for _, name := range t.captured() {
		values[name] = "1"
	}
	return values
}

// sampleValues fill a template to check its result.
var sampleValues = map[string]string{varPayload: "p1", varNumber: "1", varUUID: "u1", varNow: "n1", varCase: "c1",
	varRun: "r1"}
