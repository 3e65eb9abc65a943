package conformance

import (
	"context"
	crand "crypto/rand"
	"crypto/sha256"
	"crypto/tls"
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

// Run runs the cases against the target and returns the report. After an error, Run still returns the report up to
// that point, and the report's ExitCode covers the error. The error matches ErrConfig if the description or an
// option is wrong. It matches ErrUnreachable if no connection to the target can be made. It matches the context's
// error if the context ended the run. A target that breaks rules is not an error.
//
// Up to 8 cases run at a time, see Concurrency. When Run returns, all its goroutines and connections have ended.
func Run(ctx context.Context, t Target, opts ...Option) (Report, error) {
	r := &runner{target: t, began: time.Now()}
	report := Report{Schema: Schema, Target: t.Name, Started: r.began.UTC()}
	if err := r.prepare(opts); err != nil {
		report.Stopped = &Stopped{StopConfig, err.Error()}
		return report, err
	}
	ctx, r.cancel = context.WithCancelCause(ctx)
	defer r.cancel(nil)
	r.results = make(map[string]Result, len(r.cases))
	r.proofs, r.repeated, r.lessons = map[string]bool{}, map[string]bool{}, map[string]*lesson{}
	if err := r.preflight(ctx); err != nil {
		r.halt(reasonOf(ctx, err), err)
	} else {
		r.all(ctx)
	}
	err := r.stopError(ctx)
	r.excuse()
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

// runner holds the state of one run.
type runner struct {
	target   Target
	settings *settings
	profile  Profile
	cases    []Case
	dialer   *dialer
	tls      *tls.Config
	mask     *mask
	nonce    string // {{run}}, different in each run
	began    time.Time
	cancel   context.CancelCauseFunc

	gate gate

	learned // by the controls, before the layers above start

	mu       sync.Mutex
	results  map[string]Result
	proofs   map[string]bool // slugs of the results that more effects than operations prove
	repeated map[string]bool // slugs of the results of a second run, alone
	lessons  map[string]*lesson
	early    []early // the first keys, for the end of the run
	ledger   []entry // the bounds on each trial's effects
	keysUsed int
	stopped  *Stopped
	err      error
}

func (r *runner) prepare(opts []Option) (err error) {
	if r.settings, err = newSettings(opts); err != nil {
		return err
	}
	r.profile, _ = r.target.profile() // Validate checks it
	r.target = r.target.under(r.profile)
	if err := r.target.Validate(); err != nil {
		return err
	}
	if r.cases, err = selectCases(Cases(), r.settings); err != nil {
		return err
	}
	if r.tls, err = r.target.tlsConfig(); err != nil {
		return err
	}
	base, _ := r.target.base() // Validate has checked it
	r.dialer = newDialer(base, r.tls, r.target.timeout())
	r.mask = newMask(r.target)
	var random [16]byte
	_, _ = crand.Read(random[:]) // it never fails
	r.nonce = "r" + hex.EncodeToString(random[:5])
	if !r.settings.seeded {
		r.settings.seed = binary.LittleEndian.Uint64(random[8:]) >> 11 // all readers agree on JSON numbers of 53 bits
	}
	if e := r.target.Effects; e != nil && !e.apart() {
		r.settings.workers = 1
	}
	if r.settings.rate > 0 {
		r.gate.interval = time.Duration(float64(time.Second) / r.settings.rate)
	}
	return nil
}

// preflight checks that the target is reachable and the counter works, before any case runs.
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
	r.learnLifetime(ctx)
	if r.target.Effects == nil || r.target.Effects.ResponseID != "" {
		return nil
	}
	before, err := r.count(ctx, r.nonce+"preflight")
	if err != nil {
		return err
	}
	select {
	case <-time.After(max(stillness, r.target.settle())):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	after, err := r.count(ctx, r.nonce+"preflight")
	if err != nil {
		return err
	}
	if after != before {
		return counterError("the count moves without a request: it was %d and then %d; count by "+
			"{{case}}, or keep others off the target", before, after)
	}
	return nil
}

// stillness is the time that the counter is watched before the first request.
const stillness = 50 * time.Millisecond

// all runs the cases, layer by layer. Then it runs the cases that need the target alone. It then repeats failed
// cases, and last runs the cases that review the run.
func (r *runner) all(ctx context.Context) {
	var alone, last []Case
	for _, layer := range layers(r.cases) {
		places := make(chan struct{}, r.settings.workers)
		var group sync.WaitGroup
		for _, c := range layer {
			switch {
			case c.last:
				last = append(last, c)
				continue
			case c.alone:
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
		for _, c := range layer {
			if c.Group() == "ctl" && !r.settings.failFast {
				r.repeat(ctx, c) // the layers above depend on it
			}
		}
	}
	for _, c := range alone {
		r.one(ctx, c)
	}
	for _, c := range r.cases {
		if !c.last && c.Group() != "ctl" && !r.settings.failFast { // a third run of a control would have used keys
			r.repeat(ctx, c)
		}
	}
	for _, c := range last {
		r.one(ctx, c)
	}
}

// one runs a case, or records why the case does not run. With FailFast it repeats a failed case immediately, and a
// broken MUST ends the run.
func (r *runner) one(ctx context.Context, c Case) {
	if ctx.Err() != nil {
		return // Run reports this for every case without a result
	}
	res := r.result(c)
	if v, reason := r.obstacle(c); v != "" {
		res.Verdict, res.Reason = v, reason
	} else {
		r.try(ctx, c, &res, "")
	}
	r.keep(c, res)
	if r.settings.failFast {
		r.repeat(ctx, c)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.stopped == nil && r.results[c.Slug].Verdict == Fail && r.results[c.Slug].Failed(false) {
			r.stopped = &Stopped{StopFailFast, c.Slug + " failed"}
			r.cancel(errors.New(r.stopped.Message))
		}
	}
}

// keep stores a result. It reports the result unless the case will run again.
func (r *runner) keep(c Case, res Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results[c.Slug] = res
	if r.settings.progress != nil && !r.repeats(c, res) {
		r.settings.progress(res)
	}
}

func (r *runner) result(c Case) Result {
	return Result{
		Slug: c.Slug, Level: c.Level, Rule: c.Rule, Why: c.Why, Sources: c.Sources,
		Expected: r.settings.expected[c.Slug],
	}
}

// obstacle returns the reason why a case can't run: a missing declaration, or a prerequisite without a usable
// result.
func (r *runner) obstacle(c Case) (Verdict, string) {
	var missing []string
	for _, n := range c.Needs {
		if !r.target.declares(n, r.profile) {
			missing = append(missing, needTexts[n])
		}
	}
	if len(missing) > 0 {
		return Skip, undeclared + strings.Join(missing, undeclaredToo)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	unsure := ""
	for _, slug := range c.prerequisites() {
		// A warning concerns only the form, so the cases that depend on it remain meaningful.
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

// try runs a case and fills in its result. The round distinguishes the keys of a repeated case.
func (r *runner) try(ctx context.Context, c Case, res *Result, round string) {
	index := slices.IndexFunc(r.cases, func(other Case) bool { return other.Slug == c.Slug })
	t := &trial{
		ctx: ctx, run: r, c: c, began: time.Now(),
		plan:  random(strconv.FormatUint(r.settings.seed, 10), c.Slug),
		fresh: random(r.nonce, c.Slug+round),
		word:  r.nonce + "c" + strconv.Itoa(index+1) + round,
	}
	func() {
		defer func() {
			if p := recover(); p != nil && p != (any)(stopped{}) {
				t.found(Harness, "", fmt.Sprintf("the case panicked: %v", p))
			}
		}()
		if r.target.Effects != nil {
			t.tally.start = t.total()
			t.tally.base = t.tally.start
		}
		defer func() {
			if ctx.Err() == nil {
				t.close()
			}
		}()
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

// conclude turns the findings into a result.
func (t *trial) conclude(res *Result) {
	slices.SortStableFunc(t.findings, func(a, b Finding) int { return b.Verdict.weight() - a.Verdict.weight() })
	res.Verdict, res.Findings, res.Effects = Pass, t.findings, t.tally.last
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

// halt stops the run. The first reason wins.
func (r *runner) halt(reason string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped == nil {
		r.stopped = &Stopped{reason, r.mask.hide(err.Error())}
		r.err = maskedError{r.stopped.Message, err}
		r.cancel(err)
	}
}

// maskedError is an error with the secrets in its text masked.
type maskedError struct {
	text string
	err  error
}

func (e maskedError) Error() string { return e.text }
func (e maskedError) Unwrap() error { return e.err }

// stopError returns the error that stopped the run, or nil.
func (r *runner) stopError(ctx context.Context) error {
	if ctx.Err() != nil && r.stopped == nil {
		r.halt(StopCanceled, fmt.Errorf("conformance: the run was canceled: %w", context.Cause(ctx)))
	}
	return r.err
}

func reasonOf(ctx context.Context, err error) string {
	switch {
	case ctx.Err() != nil:
		return StopCanceled
	case errors.Is(err, ErrUnreachable):
		return StopUnreachable
	case errors.Is(err, ErrConfig):
		return StopConfig
	}
	return StopFault
}

// counterAt returns the dialer and path of a counter's URL, which may be a path below the target's.
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
	return newDialer(origin, r.tls, r.target.timeout()), path, nil
}

// restart restarts the target and waits until it accepts a connection.
func (r *runner) restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.target.Restart.within())
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
