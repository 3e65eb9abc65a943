package clientcheck

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redo-go/redo/conformance"
	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/servertest"
)

// A trial is one case while it runs.
type trial struct {
	*runner
	ctx       context.Context
	rule      rule
	operation string
	state     string // the operation's directory
	started   time.Time
	limit     time.Duration      // ends each run of the command
	delay     time.Duration      // of a response that the script delays after its effect
	server    *servertest.Server // nil before it listens
	other     *servertest.Server // another origin; nil if the case has none
	processes []*process
	findings  []conformance.Finding // the heaviest first
}

func newTrial(ctx context.Context, r *runner, c rule) *trial {
	return &trial{runner: r, ctx: ctx, rule: c, operation: c.Slug + ":" + rand.Text(), started: time.Now(),
		limit: r.Limit}
}

func (t *trial) prepare() error {
	var err error
	t.state, err = os.MkdirTemp(t.dir, t.rule.Slug+"-*")
	return err
}

func (t *trial) close() {
	for _, s := range []*servertest.Server{t.server, t.other} {
		if s != nil {
			s.Close()
		}
	}
}

// weights orders findings. A verdict that is not listed is the lightest.
var weights = map[conformance.Verdict]int{
	conformance.Harness: 4, conformance.Fail: 3, conformance.Warn: 2, conformance.Inconclusive: 1,
}

func (t *trial) found(v conformance.Verdict, expected, actual string) {
	t.findings = append(t.findings, conformance.Finding{Verdict: v, Expected: expected, Actual: actual})
	slices.SortStableFunc(t.findings, func(a, b conformance.Finding) int {
		return cmp.Compare(weights[b.Verdict], weights[a.Verdict])
	})
}

// broken records that the case's own rule is broken.
func (t *trial) broken(expected, format string, args ...any) {
	v := conformance.Fail
	if t.rule.Level == conformance.Should {
		v = conformance.Warn
	}
	t.found(v, expected, fmt.Sprintf(format, args...))
}

// skip ends a case that found nothing because its rule did not apply.
func (t *trial) skip(reason string) {
	if len(t.findings) == 0 {
		t.found(conformance.Skip, "", reason)
	}
}

// listen serves with a script for the operation's requests.
func (t *trial) listen(opts ...servertest.Option) bool {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.found(conformance.Harness, "", err.Error())
		return false
	}
	t.server = t.serve(l, opts...)
	return t.server != nil
}

func (t *trial) serve(l net.Listener, opts ...servertest.Option) *servertest.Server {
	s, err := servertest.Serve(l, nil, append(opts, servertest.KeyHeader(t.KeyHeader))...)
	if err != nil {
		t.found(conformance.Harness, "", err.Error())
		return nil
	}
	return s
}

// play serves the steps to the requests of the first key, and runs the command. It returns nil if that is impossible.
func (t *trial) play(steps ...servertest.Fault) *process {
	if !t.listen(servertest.ScriptNext(steps...)) {
		return nil
	}
	return t.run()
}

// playAlways serves the same step to the first requests of every key, and runs the command.
func (t *trial) playAlways(step servertest.Fault) *process {
	if !t.listen(servertest.ScriptEach(slices.Repeat([]servertest.Fault{step}, 2*maxAttempts)...)) {
		return nil
	}
	return t.run()
}

// run runs the command to its end.
func (t *trial) run() *process {
	p := t.start(t.server.URL, t.operation)
	if p != nil {
		<-p.ended
	}
	return p
}

func (t *trial) start(origin, operation string) *process {
	p, err := startProcess(t.ctx, t.Command, []string{
		EnvURL + "=" + origin + "/orders", EnvBaseURL + "=" + origin, EnvOperation + "=" + operation,
		EnvDir + "=" + t.state,
	}, t.limit)
	if err != nil {
		t.found(conformance.Harness, "", err.Error())
		return nil
	}
	t.processes = append(t.processes, p)
	return p
}

// firstRequest returns the time from the command's start to its first request.
func (t *trial) firstRequest() time.Duration {
	posts := t.posts()
	if len(posts) == 0 || len(t.processes) == 0 {
		return 0
	}
	return posts[0].At.Sub(t.processes[0].sent)
}

// posts returns the unsafe requests to the operation's origin, in the order of arrival.
func (t *trial) posts() []servertest.Request { return unsafeRequests(t.server) }

func unsafeRequests(s *servertest.Server) []servertest.Request {
	if s == nil {
		return nil
	}
	return slices.DeleteFunc(s.Requests(), func(r servertest.Request) bool { return wire.SafeMethod(r.Method) })
}

// effects returns the number of effects at all origins.
func (t *trial) effects() int {
	n := 0
	for _, s := range []*servertest.Server{t.server, t.other} {
		if s != nil {
			n += s.Ledger().Total()
		}
	}
	return n
}

// exchanges returns the requests and the ends of the command as evidence, in the order of time.
func (t *trial) exchanges() []*conformance.Exchange {
	var all []*conformance.Exchange
	at := func(m time.Time) int64 { return m.Sub(t.started).Microseconds() }
	add := func(s *servertest.Server, label string) {
		if s == nil {
			return
		}
		for _, r := range s.Requests() {
			x := &conformance.Exchange{
				Label: fmt.Sprintf("%s %d", label, r.Number), Method: r.Method, Path: r.Path,
				RequestBody: strings.ToValidUTF8(string(r.Body[:min(len(r.Body), maxOutput)]), "?"),
				SentMicros:  at(r.At), DoneMicros: at(r.At),
			}
			if r.Step != "" {
				x.Delivery = r.Step
			}
			for _, key := range r.Header.Values(t.KeyHeader) {
				x.RequestHeader = append(x.RequestHeader, t.KeyHeader+": "+key)
			}
			all = append(all, x)
		}
	}
	add(t.server, "request")
	add(t.other, "request to the other origin")
	for i, p := range t.processes {
		all = append(all, &conformance.Exchange{
			Label: fmt.Sprintf("end of run %d", i+1), Method: p.String(), SentMicros: at(p.done),
			DoneMicros:  at(p.done),
			RequestBody: strings.TrimSpace(p.output.String()),
		})
	}
	slices.SortStableFunc(all, func(a, b *conformance.Exchange) int { return cmp.Compare(a.SentMicros, b.SentMicros) })
	return all
}
