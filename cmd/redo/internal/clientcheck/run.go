package clientcheck

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redo-go/redo/conformance"
	"github.com/redo-go/redo/internal/wire"
)

// Options holds the settings of a run.
type Options struct {
	// Command is the command line, without a shell. It must not be empty.
	Command []string
	// KeyHeader is the name of the header that carries the key. Empty means Idempotency-Key.
	KeyHeader string
	// Limit ends each run of the command. Zero means 30 s.
	Limit time.Duration
	// ClientTimeout is the client's own timeout of one attempt. Zero means unknown: client-timeout is skipped.
	ClientTimeout time.Duration
	// Workers is the number of cases that run at a time. Zero means 4.
	Workers int
	// Only are the slugs of the cases to run. Empty means all. The baseline always runs.
	Only []string
	// Progress, if not nil, is called with each result, by one goroutine at a time.
	Progress func(conformance.Result)
}

// Defaults of Options.
const (
	DefaultLimit   = 30 * time.Second
	DefaultWorkers = 4
)

func (o Options) complete() (Options, error) {
	switch {
	case len(o.Command) == 0:
		return o, errors.New("the command is empty")
	case o.Limit < 0 || o.ClientTimeout < 0 || o.Workers < 0:
		return o, errors.New("a limit is negative")
	}
	for _, slug := range o.Only {
		if !slices.ContainsFunc(cases, func(c rule) bool { return c.Slug == slug }) {
			return o, fmt.Errorf("no case has the slug %q", slug)
		}
	}
	if o.KeyHeader == "" {
		o.KeyHeader = wire.HeaderKey
	}
	if o.Limit == 0 {
		o.Limit = DefaultLimit
	}
	if o.Workers == 0 {
		o.Workers = DefaultWorkers
	}
	if o.Progress == nil {
		o.Progress = func(conformance.Result) {}
	}
	return o, nil
}

// Cases returns all cases, in the order of a report.
func Cases() []conformance.Case {
	all := make([]conformance.Case, len(cases))
	for i, c := range cases {
		all[i] = c.Case
	}
	return all
}

// Run runs the command once or twice for each case. The report is complete also when the error is not nil.
func Run(ctx context.Context, o Options) (conformance.Report, error) {
	started := time.Now()
	report := conformance.Report{
		Schema: conformance.Schema, Target: strings.Join(o.Command, " "), Profile: conformance.ClientProfile,
		Started: started,
	}
	o, err := o.complete()
	if err != nil {
		report.Stopped = &conformance.Stopped{Reason: conformance.StopConfig, Message: err.Error()}
		return report, fmt.Errorf("clientcheck: %w", err)
	}
	dir, err := os.MkdirTemp("", "redo-client-check-")
	if err != nil {
		report.Stopped = &conformance.Stopped{Reason: conformance.StopFault, Message: err.Error()}
		return report, fmt.Errorf("clientcheck: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	r := &runner{Options: o, dir: dir}
	report.Results, report.Stopped = r.all(ctx)
	report.Micros = time.Since(started).Microseconds()
	if report.Stopped != nil {
		err = fmt.Errorf("clientcheck: %s", report.Stopped.Message)
	}
	return report, err
}

// A runner runs the cases of one report.
type runner struct {
	Options
	dir     string
	startup time.Duration // from the command's start to its first request, in the baseline
	mu      sync.Mutex    // serializes Progress
}

// all runs the baseline, and then the other cases side by side.
func (r *runner) all(ctx context.Context) ([]conformance.Result, *conformance.Stopped) {
	var selected []rule
	for i, c := range cases {
		if i == 0 || len(r.Only) == 0 || slices.Contains(r.Only, c.Slug) {
			selected = append(selected, c)
		}
	}
	results := make([]conformance.Result, len(selected))
	var baseline *trial
	results[0], baseline = r.one(ctx, selected[0])
	r.Progress(results[0])
	if ctx.Err() == nil && results[0].Verdict != conformance.Pass {
		reason := "client-baseline did not pass"
		results[0].Verdict = conformance.Harness
		for i, c := range selected[1:] {
			results[i+1] = result(c)
			results[i+1].Verdict, results[i+1].Reason = conformance.Blocked, reason
		}
		message := "the command does not keep the contract of client-check"
		if len(results[0].Findings) > 0 {
			message = results[0].Findings[0].Actual
		}
		return results, &conformance.Stopped{Reason: conformance.StopUnreachable, Message: message}
	}
	r.startup = baseline.firstRequest()
	turns := make(chan struct{}, r.Workers)
	var running sync.WaitGroup
	for i, c := range selected[1:] {
		running.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			results[i+1], _ = r.one(ctx, c)
			r.mu.Lock()
			defer r.mu.Unlock()
			r.Progress(results[i+1])
		})
	}
	running.Wait()
	for i, c := range selected[1:] {
		if ctx.Err() == nil && results[i+1].Verdict != conformance.Pass && *results[i+1].Effects < 2 {
			results[i+1] = r.again(ctx, c, results[i+1])
		}
	}
	if ctx.Err() != nil {
		return results, &conformance.Stopped{Reason: conformance.StopCanceled, Message: context.Cause(ctx).Error()}
	}
	return results, nil
}

// again repeats a case that broke its rule, without other cases beside it. On a busy machine a client's own timeout can
// pass before the server reads the request, so that the client rightly sends it again.
func (r *runner) again(ctx context.Context, c rule, first conformance.Result) conformance.Result {
	if first.Verdict == conformance.Skip {
		return first
	}
	second, _ := r.one(ctx, c)
	if second.Verdict == conformance.Pass || second.Verdict == conformance.Skip {
		second.Verdict, second.Reason = conformance.Info, ""
		second.Findings = []conformance.Finding{{
			Verdict: conformance.Info,
			Actual:  "only beside other cases, not alone: " + first.Findings[0].Actual,
		}}
		second.Exchanges = first.Exchanges
	}
	return second
}

// one runs one case.
func (r *runner) one(ctx context.Context, c rule) (conformance.Result, *trial) {
	res := result(c)
	started := time.Now()
	t := newTrial(ctx, r, c)
	defer t.close()
	if err := t.prepare(); err != nil {
		t.found(conformance.Harness, "", err.Error())
	} else {
		c.play(t)
	}
	if ctx.Err() != nil { // the command was killed, so its verdict proves nothing
		t.findings = nil
		t.found(conformance.Harness, "", context.Cause(ctx).Error())
	}
	res.Verdict = conformance.Pass
	if len(t.findings) > 0 {
		res.Findings, res.Verdict = t.findings, t.findings[0].Verdict
	}
	if res.Verdict == conformance.Skip {
		res.Reason, res.Findings = t.findings[0].Actual, nil
	}
	effects := t.effects()
	res.Effects = &effects
	if res.Verdict != conformance.Pass && res.Verdict != conformance.Skip {
		res.Exchanges = t.exchanges()
	}
	res.Micros = time.Since(started).Microseconds()
	return res, t
}

func result(c rule) conformance.Result {
	return conformance.Result{Slug: c.Slug, Level: c.Level, Rule: c.Rule, Why: c.Why, Sources: c.Sources}
}
