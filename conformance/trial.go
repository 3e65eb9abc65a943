package conformance

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redo-go/redo/internal/wire"
)

// trial is one run of a case. The functions of cases read from top to bottom. To end a trial early, they panic
// with stopped, which the runner recovers.
type trial struct {
	ctx   context.Context
	run   *runner
	c     Case
	began time.Time
	plan  *rand.Rand // the case's own choices, from the seed
	fresh *rand.Rand // keys, never the same in two runs
	word  string     // {{case}}

	keys     []string // the harness's own, in order
	uuids    []string // of the payloads, in order
	payloads int
	tally    tally
	shedding time.Duration // the total time that pairs of requests waited because of the target's load

	mu        sync.Mutex
	exchanges []*Exchange
	sent      int // exchanges without those of setup steps
	restarted bool
	findings  []Finding
}

// Finding is one observation of a case.
type Finding struct {
	Verdict  Verdict `json:"verdict"`
	Expected string  `json:"expected,omitempty"`
	Actual   string  `json:"actual"`
}

// stopped is the panic value that ends a trial. The findings are already stored.
type stopped struct{}

func (t *trial) stop(v Verdict, expected, actual string) {
	t.found(v, expected, actual)
	panic(stopped{})
}

func (t *trial) found(v Verdict, expected, actual string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := Finding{v, t.run.mask.hide(expected), t.run.mask.hide(actual)}
	if !slices.Contains(t.findings, f) {
		t.findings = append(t.findings, f)
	}
}

// miscounted adds a finding about the number of effects. It precedes all others of its verdict, because a reader needs
// it first.
func (t *trial) miscounted(v Verdict, expected, actual string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.findings = append([]Finding{{v, expected, actual}}, t.findings...)
	return false
}

// want judges at the case's own level.
func (t *trial) want(ok bool, expected string, actual any) bool {
	if !ok {
		t.found(t.c.Level.verdict(), expected, fmt.Sprint(actual))
	}
	return ok
}

// must judges as MUST, whichever level the case has.
func (t *trial) must(ok bool, expected string, actual any) bool {
	if !ok {
		t.found(Fail, expected, fmt.Sprint(actual))
	}
	return ok
}

// should judges as SHOULD, whichever level the case has.
func (t *trial) should(ok bool, expected string, actual any) bool {
	if !ok {
		t.found(Warn, expected, fmt.Sprint(actual))
	}
	return ok
}

func (t *trial) note(format string, args ...any) { t.found(Info, "", fmt.Sprintf(format, args...)) }
func (t *trial) skip(format string, args ...any) { t.stop(Skip, "", fmt.Sprintf(format, args...)) }
func (t *trial) inconclusive(format string, args ...any) {
	t.stop(Inconclusive, "", fmt.Sprintf(format, args...))
}

// block ends the trial, because another case's finding leaves nothing to judge.
func (t *trial) block(slug, format string, args ...any) {
	t.stop(Blocked, "", fmt.Sprintf(format, args...)+": see "+slug)
}

// payload holds the values that fill an operation's template.
type payload map[string]string

// payload returns the next payload, for the first principal.
func (t *trial) payload() payload { return t.payloadBy(0) }

// payloadBy returns the next payload. The target's setup steps run as the principal with the given index.
func (t *trial) payloadBy(by int) payload {
	p := t.values()
	for i, step := range t.run.target.Setup {
		t.setUp(fmt.Sprintf("setup %d", i+1), step, p, by)
	}
	return p
}

// values returns the next payload without its setup.
func (t *trial) values() payload {
	t.payloads++
	t.uuids = append(t.uuids, t.uuid())
	number := strconv.Itoa(t.payloads)
	return payload{
		varPayload: t.word + "p" + number, varNumber: number, varUUID: t.uuids[len(t.uuids)-1],
		varNow:  time.Now().UTC().Format("2006-01-02T15:04:05.000Z"),
		varCase: t.word, varRun: t.run.nonce,
	}
}

// key returns a fresh key of the form that the profile has.
func (t *trial) key() string {
	key := t.uuid()
	t.keys = append(t.keys, key)
	return key
}

// uuid returns a fresh UUID of version 4, which every service accepts as a key. It has version 7 if the profile
// requires that.
func (t *trial) uuid() string {
	var u [16]byte
	for i := range u {
		u[i] = byte(t.fresh.Uint32())
	}
	u[6], u[8] = u[6]&0x0F|0x40, u[8]&0x3F|0x80
	if t.run.profile.KeyForm == UUIDv7 {
		u[6] = u[6]&0x0F | 0x70
		now := binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixMilli()))
		copy(u[:6], now[2:])
	}
	s := hex.EncodeToString(u[:])
	return strings.Join([]string{s[:8], s[8:12], s[12:16], s[16:20], s[20:]}, "-")
}

// longKey returns a fresh key of n bytes.
func (t *trial) longKey(n int) string {
	key := t.key()
	return key + strings.Repeat("x", n-len(key))
}

// operation returns the target's main operation.
func (t *trial) operation() Operation { return t.run.target.Operation }

// variant returns o with omitted fields taken from the target's main operation.
func (t *trial) variant(o Operation) Operation { return o.over(t.run.target.Operation) }

// bare returns the request of an operation without a key, as the first principal.
func (t *trial) bare(o Operation, p payload) request {
	r := request{method: o.Method, path: fill(o.Path, p), body: []byte(fill(string(o.Body), p))}
	for _, name := range sortedKeys(o.Headers) {
		r.fields = append(r.fields, field{name, fill(o.Headers[name], p)})
	}
	if len(t.run.target.Principals) > 0 {
		r = t.as(r, t.run.target.Principals[0])
	}
	return r
}

// as replaces the first principal by p as the sender.
func (t *trial) as(r request, p Principal) request {
	for name := range t.run.target.Principals[0].Headers {
		r = r.without(name)
	}
	for _, name := range sortedKeys(p.Headers) {
		r = r.set(name, p.Headers[name])
	}
	return r
}

// request returns the request of an operation under a key.
func (t *trial) request(o Operation, key string, p payload) request {
	return t.keyed(t.bare(o, p), t.form(key))
}

// keyed adds a key with the unchanged value: a header, or a member of the body. Requests without a body get no member.
func (t *trial) keyed(r request, value string) request {
	member := t.run.profile.KeyMember
	if member == "" {
		return t.firstSent(r).with(t.run.target.keyHeader(), value)
	}
	if body, err := withMember(r.body, member, value); err == nil {
		r.body, r.key = body, value
	}
	return r
}

// firstSent adds the time of the first request, where the profile has a header for it. All of a trial have one time: a
// retry has that of its first request.
func (t *trial) firstSent(r request) request {
	if t.run.profile.FirstSent == "" {
		return r
	}
	return r.set(t.run.profile.FirstSent, t.began.UTC().Format(http.TimeFormat))
}

// form formats a key in the target's syntax.
func (t *trial) form(key string) string {
	if t.run.target.Key.Quoted {
		return wire.QuoteKey(key)
	}
	return key
}

// ended reports whether the trial has found a broken rule.
func (t *trial) ended() bool {
	return slices.ContainsFunc(t.findings, func(f Finding) bool { return f.Verdict.broken() })
}

// wait waits for d. The end of the run ends the trial.
func (t *trial) wait(d time.Duration) {
	if !pause(t.ctx, d) {
		panic(stopped{})
	}
}

// pause waits for d, and reports whether ctx is still live by then.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
