package conformance

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redo-go/redo/internal/wire"
)

// A trial is one case being run. The functions of cases read from top to bottom: whatever ends a trial before its end
// panics with stopped, which its runner recovers.
type trial struct {
	ctx   context.Context
	run   *runner
	c     Case
	began time.Time
	plan  *rand.Rand // the case's own choices, from the seed
	fresh *rand.Rand // keys, never the same in two runs
	word  string     // {{case}}

	keys     []string // the harness's own, in order
	payloads int
	base     int // the count when the trial began

	mu        sync.Mutex
	exchanges []*Exchange
	ids       map[string]bool // of effects, where they are counted by the responses
	blind     bool            // a success had no id
	findings  []Finding
	counted   *int
}

// A Finding is one thing that a case has found.
type Finding struct {
	Verdict  Verdict `json:"verdict"`
	Expected string  `json:"expected,omitempty"`
	Actual   string  `json:"actual"`
}

// stopped ends a trial. What was found is in its findings.
type stopped struct{}

func (t *trial) stop(v Verdict, expected, actual string) {
	t.found(v, expected, actual)
	panic(stopped{})
}

func (t *trial) found(v Verdict, expected, actual string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.findings = append(t.findings, Finding{v, t.run.mask.hide(expected), t.run.mask.hide(actual)})
}

// want judges at the case's own level.
func (t *trial) want(ok bool, expected string, actual any) bool {
	if !ok {
		t.found(t.c.Level.verdict(), expected, fmt.Sprint(actual))
	}
	return ok
}

// must judges as MUST, whatever the case's level.
func (t *trial) must(ok bool, expected string, actual any) bool {
	if !ok {
		t.found(Fail, expected, fmt.Sprint(actual))
	}
	return ok
}

// should judges as SHOULD, whatever the case's level.
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

// block ends the trial because what another case finds leaves nothing to judge.
func (t *trial) block(slug, format string, args ...any) {
	t.stop(Blocked, "", fmt.Sprintf(format, args...)+": see "+slug)
}

// A payload is what fills an operation's template.
type payload struct{ word, number string }

// payload makes the next one, B1, B2 and so on.
func (t *trial) payload() payload {
	t.payloads++
	return payload{t.word + "p" + strconv.Itoa(t.payloads), strconv.Itoa(t.payloads)}
}

func (t *trial) values(p payload) map[string]string {
	return map[string]string{varPayload: p.word, varNumber: p.number, varCase: t.word, varRun: t.run.nonce}
}

// key makes a fresh key, a UUID of version 4, which every service accepts.
func (t *trial) key() string {
	var u [16]byte
	for i := range u {
		u[i] = byte(t.fresh.Uint32())
	}
	u[6], u[8] = u[6]&0x0F|0x40, u[8]&0x3F|0x80
	s := hex.EncodeToString(u[:])
	key := strings.Join([]string{s[:8], s[8:12], s[12:16], s[16:20], s[20:]}, "-")
	t.keys = append(t.keys, key)
	return key
}

// longKey makes a fresh key of n bytes.
func (t *trial) longKey(n int) string {
	key := t.key()
	t.keys = t.keys[:len(t.keys)-1] // it is not a UUID, so that no shell can make another
	return key + strings.Repeat("x", n-len(key))
}

// operation is the target's main one.
func (t *trial) operation() Operation { return t.run.target.Operation }

// variant is another one of the target's.
func (t *trial) variant(o Operation) Operation { return o.over(t.run.target.Operation) }

// bare makes the request of an operation without a key, as the first principal.
func (t *trial) bare(o Operation, p payload) request {
	values := t.values(p)
	r := request{method: o.Method, path: fill(o.Path, values), body: []byte(fill(string(o.Body), values))}
	for _, name := range sortedKeys(o.Headers) {
		r.fields = append(r.fields, field{name, fill(o.Headers[name], values)})
	}
	if len(t.run.target.Principals) > 0 {
		r = t.as(r, t.run.target.Principals[0])
	}
	return r
}

// as makes the principal the sender, in the first one's place.
func (t *trial) as(r request, p Principal) request {
	for name := range t.run.target.Principals[0].Headers {
		r = r.without(name)
	}
	for _, name := range sortedKeys(p.Headers) {
		r = r.set(name, p.Headers[name])
	}
	return r
}

// request makes the request of an operation under a key.
func (t *trial) request(o Operation, key string, p payload) request {
	return t.keyed(t.bare(o, p), t.form(key))
}

// keyed adds a key header with the value as it is.
func (t *trial) keyed(r request, value string) request {
	return r.with(t.run.target.keyHeader(), value)
}

// form writes a key as the target wants it.
func (t *trial) form(key string) string {
	if t.run.target.Key.Quoted {
		return wire.QuoteKey(key)
	}
	return key
}

// try sends a request; there may be no answer.
func (t *trial) try(label string, r request) *answer {
	return t.record(label, "", r, t.run.dialer.exchange(t.ctx, r))
}

// send sends a request that has to be answered.
func (t *trial) send(label string, r request) *answer {
	a := t.try(label, r)
	t.answered(a, label)
	return a
}

func (t *trial) answered(a *answer, label string) {
	if a.err != nil {
		t.stop(heavier(t.c.Level.verdict(), Warn), "an answer to "+label, a.String())
	}
}

// accept sends a request of which the case needs that it succeeds, though that is not what it judges.
func (t *trial) accept(label string, r request) *answer {
	a := t.send(label, r)
	if !a.ok() {
		t.inconclusive("%s was answered %s; the case needs a success to begin with", label, a)
	}
	return a
}

func heavier(a, b Verdict) Verdict {
	if a.weight() < b.weight() {
		return b
	}
	return a
}

// race sends requests together.
func (t *trial) race(label string, requests []request) []*answer {
	answers := t.run.dialer.race(t.ctx, requests)
	for i, a := range answers {
		t.record(fmt.Sprintf("%s %d", label, i+1), "its last byte was sent together with the others'", requests[i], a)
	}
	return answers
}

// record writes an exchange down. The end of the run, and of the target, ends the trial.
func (t *trial) record(label, delivery string, r request, a *answer) *answer {
	t.keep(label, delivery, r, a)
	if t.ctx.Err() != nil {
		panic(stopped{}) // the runner says so
	}
	if errors.Is(a.err, ErrUnreachable) {
		t.unreachable(a.err)
	}
	return a
}

// unreachable ends the trial, and the run too unless the target comes back at once.
func (t *trial) unreachable(err error) {
	for end := time.Now().Add(comeback); time.Now().Before(end); t.wait(20 * time.Millisecond) {
		if conn, again := t.run.dialer.dial(t.ctx); again == nil {
			_ = conn.Close()
			t.stop(Harness, "", "a connection to the target could not be made, and another could: "+err.Error())
		}
	}
	t.run.halt(stopUnreachable, err)
	t.stop(Harness, "", "the target can't be reached any more: "+err.Error())
}

// comeback is how long a target that was there may be away.
const comeback = 2 * time.Second

// keep writes an exchange down, whatever became of it.
func (t *trial) keep(label, delivery string, r request, a *answer) {
	x := newExchange(label, delivery, r, a, t.began, t.run.mask)
	t.mu.Lock()
	x.Curl = t.curl(r)
	t.exchanges = append(t.exchanges, x)
	t.see(a)
	t.mu.Unlock()
}

// see notes the id of what a success has made.
func (t *trial) see(a *answer) {
	e := t.run.target.Effects
	if e == nil || e.ResponseID == "" || !a.ok() {
		return
	}
	v, err := valueAt(a.body, e.ResponseID)
	if err != nil || v == nil {
		t.blind = true
		return
	}
	if t.ids == nil {
		t.ids = map[string]bool{}
	}
	t.ids[fmt.Sprint(v)] = true
}

// fx reports whether effects are counted, and the counter was shown to count.
func (t *trial) fx() bool { return t.run.target.Effects != nil && t.run.counts && !t.blind }

// effects returns how many effects the trial has made, since the last anew.
func (t *trial) effects() int {
	if settle := time.Duration(t.run.target.Effects.Settle); settle > 0 {
		t.wait(settle)
	}
	n := len(t.ids) - t.base
	if t.run.target.Effects.ResponseID == "" {
		n = t.count() - t.base
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counted = &n
	return n
}

// anew leaves out what the trial has done so far: it did not come to what is judged.
func (t *trial) anew() {
	if t.fx() {
		t.base += t.effects()
	}
}

func (t *trial) count() int {
	n, err := t.run.count(t.ctx, t.values(payload{}))
	if t.ctx.Err() != nil {
		panic(stopped{})
	}
	if err != nil {
		t.run.halt(reasonOf(t.ctx, err), err)
		t.stop(Harness, "", err.Error())
	}
	return n
}

// effect judges the number of effects at the case's level, where they are counted.
func (t *trial) effect(n int) bool {
	if !t.fx() {
		return true
	}
	got := t.effects()
	return t.want(got == n, effectsText(n), effectsText(got))
}

// proven ends the trial unless the answers are shown to be one operation's: by its single effect, or because operations
// can be told apart and these are the same. What is to be judged of them is then judged of a replay.
func (t *trial) proven(o Operation, first *answer, others ...*answer) {
	if t.fx() {
		if n := t.effects(); n != 1 {
			t.block(slugEffect, "there were %s, so these are no replays", effectsText(n))
		}
		return
	}
	telling := t.run.telling
	if o.String() != t.operation().String() {
		telling = differences(first, t.accept("another operation, to tell them apart", t.request(o, t.key(), t.payload())))
	}
	if len(telling) == 0 {
		t.inconclusive("different operations get equal responses, and effects are not counted: a replay can't be told from a new run")
	}
	for _, a := range others {
		if d := differences(first, a); slices.ContainsFunc(d, func(x aspect) bool { return slices.Contains(telling, x) }) {
			t.block(slugBody, "the answers differ in %v, so these are no replays", d)
		}
	}
}

// String identifies an operation, to tell a variant from the main one.
func (o Operation) String() string {
	return strings.Join(append([]string{o.Method}, o.texts()...), "\x00")
}

// wait waits for d.
func (t *trial) wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.ctx.Done():
		panic(stopped{})
	}
}

// patiently sends a request again while it is refused because the first one is running, for so long at most, and returns
// the last answer.
func (t *trial) patiently(label string, r request, atMost time.Duration) *answer {
	end := time.Now().Add(atMost)
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		a := t.send(label, r)
		if !t.run.profile.inFlight(a) || time.Now().After(end) {
			return a
		}
		t.wait(pause)
	}
}
