package inbox

import (
	"context"
	"time"

	"github.com/redo-go/redo/internal/settle"
)

// settle completes the event under the attempt's lease. Without a record of the success the handler would run again.
// So settle tries again until StoreTimeout has passed, and meanwhile renews the lease.
func (a *attempt) settle(ctx context.Context) error {
	ctx, done := a.in.storeContext(ctx)
	defer done()
	w := settle.Write{
		Store: a.in.st, Lease: a.lease, TTL: a.in.config.lease, Outcome: a.outcome(), Renewed: a.held,
	}
	return a.in.repeat(ctx, func() error { return w.Try(ctx) })
}

// record writes the note of a failure. The lease ends d from then. If the payload were not kept, and the producer gave
// up, the event would be lost. So record tries again until StoreTimeout has passed.
func (a *attempt) record(ctx context.Context, d time.Duration) error {
	ctx, done := a.in.storeContext(ctx)
	defer done()
	return a.in.repeat(ctx, func() error { return a.write(ctx, d) })
}

// repeat makes a write again, with pauses, until it is settled or the context ends. It returns the last error.
func (in *Inbox) repeat(ctx context.Context, write func() error) error {
	return settle.Repeat(ctx, in.config.lease, write(), write)
}
