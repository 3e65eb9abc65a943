package redo

import (
	"context"
	"slices"
	"sync"
)

// A Report receives the outcome of calls that an SDK makes. [WithReport] makes one. It is safe for concurrent use.
type Report struct {
	mu       sync.Mutex
	err      *Error
	attempts []Attempt
	resumed  bool
}

// WithReport returns a context and a report that the calls on that context fill. Under [Client.Transport] an SDK
// returns its own error, and the report has redo's.
func WithReport(ctx context.Context) (context.Context, *Report) {
	in := intentOf(ctx)
	in.report = &Report{}
	return context.WithValue(ctx, intentKey{}, in), in.report
}

// Err returns the error of the last call. It returns nil if that call succeeded, or if there was none. A status of
// 400 and above is an error here, even if the transport returned it as a response.
func (r *Report) Err() *Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err.apart()
}

// Attempts returns the attempts of the last call, oldest first, including those of a success.
func (r *Report) Attempts() []Attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.attempts)
}

// Resumed reports whether the last call continued a stored operation that an earlier call had begun.
func (r *Report) Resumed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.resumed
}

func (r *Report) set(out outcome, resumed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err, r.attempts, r.resumed = out.err.apart(), out.attempts, resumed
}
