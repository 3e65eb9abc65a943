package conformance

import (
	"context"
	crand "crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Run tries the cases on the target and returns what they found. The report is returned with an error too, as far as it
// got, and its ExitCode goes for both. The error matches ErrConfig when the description or an option is wrong,
// ErrUnreachable when no connection to the target can be made, and the context's error when that ended the run. A target
// that breaks rules is no error.
//
// Up to 8 cases run at a time, see Concurrency. When Run returns, everything that it started has ended.
func Run(ctx context.Context, t Target, opts ...Option) (Report, error) {
	r := &runner{target: t, began: time.Now()}
	report := Report{Schema: Schema, Target: t.Name, Started: r.began.UTC()}
	if err := r.prepare(opts); err != nil {
		report.Stopped = &Stopped{stopConfig, err.Error()}
		return report, err
	}
	ctx, r.cancel = context.WithCancelCause(ctx)
	defer r.cancel(nil)
	r.results = make(map[string]Result, len(r.cases))
	if err := r.preflight(ctx); err != nil {
		r.halt(reasonOf(ctx, err), err)
	} else {
		r.all(ctx)
	}
	err := r.stopError(ctx)
	report.BaseURL, report.Profile, report.Seed = t.BaseURL, r.profile.Name, r.settings.seed
	for _, c := range r.cases {
		res, ok := r.results[c.Slug]
		if !ok {
			res = r.result(c)
			res.Verdict, res.Reason = Harness, "the run ended before this case"
		}
		report.Results = append(report.Results, res)
	}
	report.Stopped = r.stopped
	report.Micros = time.Since(r.began).Microseconds()
	return report, err
}

// A runner is one run.
type runner struct {
	target   Target
	settings *settings
	profile  Profile
	cases    []Case
	dialer   *dialer
	mask     *mask
	nonce    string // {{run}}, in no two runs the same
	began    time.Time
	cancel   context.CancelCauseFunc

	// What the controls find out. They are written before the layers above begin.
	counts  bool     // the counter of effects was seen to count
	telling []aspect // in what the responses to different operations differ

	mu      sync.Mutex
	results map[string]Result
	stopped *Stopped
	err     error
}

func (r *runner) prepare(opts []Option) (err error) {
	if r.settings, err = newSettings(opts); err != nil {
		return err
	}
	if err := r.target.Validate(); err != nil {
		return err
	}
	r.profile, _ = r.target.profile() // Validate has seen its error
	if r.cases, err = selectCases(Cases(), r.settings); err != nil {
		return err
	}
	config := r.target.TLS
	if r.target.CAFile != "" {
		if config, err = trust(r.target.CAFile); err != nil {
			return err
		}
	}
	base, _ := r.target.base() // as above
	r.dialer = newDialer(base, config, r.target.timeout())
	r.mask = newMask(r.target)
	var random [16]byte
	_, _ = crand.Read(random[:]) // it never fails
	r.nonce = "r" + hex.EncodeToString(random[:5])
	if !r.settings.seeded {
		r.settings.seed = binary.LittleEndian.Uint64(random[8:]) >> 11 // JSON numbers of 53 bits are read the same everywhere
	}
	if e := r.target.Effects; e != nil && !e.apart() {
		r.settings.workers = 1
	}
	return nil
}

// preflight finds out whether the target is there and the counter works, before any case asks.
func (r *runner) preflight(ctx context.Context) error {
	dialing, cancel := context.WithTimeout(ctx, r.target.timeout())
	defer cancel()
	conn, err := r.dialer.dial(dialing)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	_ = conn.Close()
	if r.target.Effects == nil || r.target.Effects.ResponseID != "" {
		return nil
	}
	values := map[string]string{varCase: r.nonce + "preflight", varRun: r.nonce}
	before, err := r.count(ctx, values)
	if err != nil {
		return err
	}
	select {
	case <-time.After(max(stillness, time.Duration(r.target.Effects.Settle))):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	after, err := r.count(ctx, values)
	if err != nil {
		return err
	}
	if after != before {
		return counterError("the count moves by itself: it was %d and then %d, with no request in between; count by {{case}}, or keep others off the target", before, after)
	}
	return nil
}

// stillness is for how long the counter is watched before the first request.
const stillness = 50 * time.Millisecond

// all runs the cases, layer by layer; those that need the target for themselves come last.
func (r *runner) all(ctx context.Context) {
	var alone []Case
	for _, layer := range layers(r.cases) {
		places := make(chan struct{}, r.settings.workers)
		var group sync.WaitGroup
		for _, c := range layer {
			if c.alone {
				alone = append(alone, c)
				continue
			}
			places <- struct{}{}
			group.Go(func() {
				defer func() { <-places }()
				r.one(ctx, c)
			})
		}
		group.Wait()
	}
	for _, c := range alone {
		r.one(ctx, c)
	}
}

// one runs a case, or says why it is not run.
func (r *runner) one(ctx context.Context, c Case) {
	if ctx.Err() != nil {
		return // Run says so of every case without a result
	}
	res := r.result(c)
	if v, reason := r.obstacle(c); v != "" {
		res.Verdict, res.Reason = v, reason
	} else {
		r.try(ctx, c, &res)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results[c.Slug] = res
	if r.settings.progress != nil {
		r.settings.progress(res)
	}
}

func (r *runner) result(c Case) Result {
	return Result{
		Slug: c.Slug, Level: c.Level, Rule: c.Rule, Why: c.Why, Sources: c.Sources,
		Expected: r.settings.expected[c.Slug],
	}
}

// obstacle returns why a case can't be run: something is not declared, or what it stands on is not there.
func (r *runner) obstacle(c Case) (Verdict, string) {
	var missing []string
	for _, n := range c.Needs {
		if !r.target.declares(n, r.profile) {
			missing = append(missing, needTexts[n])
		}
	}
	if len(missing) > 0 {
		return Skip, "the target does not declare " + strings.Join(missing, ", nor ")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	unsure := ""
	for _, slug := range c.prerequisites() {
		// A warning is about how something was said, and leaves what stands on it its meaning.
		switch r.results[slug].Verdict {
		case Fail, Blocked, Harness, "":
			return Blocked, slug + " did not pass"
		case Inconclusive:
			unsure = slug + " was inconclusive: " + r.results[slug].Reason
		}
	}
	if unsure != "" {
		return Inconclusive, unsure
	}
	return "", ""
}

// try runs a case and fills its result in.
func (r *runner) try(ctx context.Context, c Case, res *Result) {
	index := slices.IndexFunc(r.cases, func(other Case) bool { return other.Slug == c.Slug })
	t := &trial{
		ctx: ctx, run: r, c: c, began: time.Now(),
		plan:  random(strconv.FormatUint(r.settings.seed, 10), c.Slug),
		fresh: random(r.nonce, c.Slug),
		word:  r.nonce + "c" + strconv.Itoa(index+1),
	}
	func() {
		defer func() {
			if p := recover(); p != nil && p != (any)(stopped{}) {
				t.found(Harness, "", fmt.Sprintf("the case panicked: %v", p))
			}
		}()
		if r.target.Effects != nil && r.target.Effects.ResponseID == "" {
			t.base = t.count()
		}
		c.run(t)
	}()
	if ctx.Err() != nil {
		t.found(Harness, "", "the run ended while this case was running")
	}
	t.conclude(res)
}

// random returns a generator that is the same for the same texts.
func random(a, b string) *rand.Rand {
	return rand.New(rand.NewChaCha8(sha256.Sum256([]byte(a + "\x00" + b))))
}

// conclude makes a result of what was found.
func (t *trial) conclude(res *Result) {
	slices.SortStableFunc(t.findings, func(a, b Finding) int { return b.Verdict.weight() - a.Verdict.weight() })
	res.Verdict, res.Findings, res.Effects = Pass, t.findings, t.counted
	if len(t.findings) > 0 && t.findings[0].Verdict != Info {
		res.Verdict = t.findings[0].Verdict
	} else if t.c.Level == Inform {
		res.Verdict = Info
	}
	switch res.Verdict {
	case Skip, Blocked, Inconclusive, Harness:
		res.Reason = t.findings[0].Actual
	}
	if res.Verdict != Pass && res.Verdict != Skip {
		res.Exchanges = t.exchanges
		res.Curl = t.curls()
		res.Rerun = fmt.Sprintf("--run %s --seed %d", t.c.Slug, t.run.settings.seed)
	}
	res.Micros = time.Since(t.began).Microseconds()
}

// halt ends the run, for the first reason that is given.
func (r *runner) halt(reason string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped == nil {
		r.stopped = &Stopped{reason, r.mask.hide(err.Error())}
		r.err = maskedError{r.stopped.Message, err}
		r.cancel(err)
	}
}

// A maskedError is an error without the secrets in its text.
type maskedError struct {
	text string
	err  error
}

func (e maskedError) Error() string { return e.text }
func (e maskedError) Unwrap() error { return e.err }

// stopError returns what ended the run, nil when nothing did.
func (r *runner) stopError(ctx context.Context) error {
	if ctx.Err() != nil && r.stopped == nil {
		r.halt(stopCanceled, fmt.Errorf("conformance: the run was canceled: %w", context.Cause(ctx)))
	}
	return r.err
}

func reasonOf(ctx context.Context, err error) string {
	switch {
	case ctx.Err() != nil:
		return stopCanceled
	case errors.Is(err, ErrUnreachable):
		return stopUnreachable
	case errors.Is(err, ErrConfig):
		return stopConfig
	}
	return stopFault
}

// counterAt returns how to reach a counter's URL, which may be a path below the target's.
func (r *runner) counterAt(where string) (*dialer, string, error) {
	if strings.HasPrefix(where, "/") {
		return r.dialer, where, nil
	}
	u, err := url.Parse(where)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return nil, "", counterError("its url is neither a path nor an http or https URL without credentials")
	}
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	if u.RawQuery != "" {
		path += "?" + u.RawQuery
	}
	origin := &url.URL{Scheme: u.Scheme, Host: u.Host}
	return newDialer(origin, r.target.TLS, r.target.timeout()), path, nil
}

// restart restarts the target and waits until it answers.
func (r *runner) restart(ctx context.Context) error {
	within := time.Duration(r.target.Restart.Within)
	if within == 0 {
		within = 30 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if f := r.target.Restart.Func; f != nil {
		if err := f(ctx); err != nil {
			return err
		}
	} else {
		cmd := exec.CommandContext(ctx, r.target.Restart.Command[0], r.target.Restart.Command[1:]...)
		cmd.WaitDelay = time.Second
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("the restart command: %w", err)
		}
	}
	for {
		conn, err := r.dialer.dial(ctx)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}
