package outbox

import (
	"context"
	"errors"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/taxonomy"
)

// A Publisher delivers events. [HTTP] is one; examples/nats shows another.
type Publisher interface {
	// Publish delivers the event and returns nil once it is acknowledged. It must be safe for concurrent use, keep to the
	// context, and send the event's id in such a way that the other side can deduplicate: an event may be published more
	// than once.
	//
	// Its error decides what follows: a redo.Error as redo.SafeToRetry judges it, an error that wraps a taxonomy.Code by
	// that code's class, and any other is transient. [Reject] makes an error terminal, and taxonomy.Duplicate is success.
	Publish(ctx context.Context, ev Event) error
}

// A PublisherFunc is a function as a Publisher.
type PublisherFunc func(ctx context.Context, ev Event) error

// Publish calls f.
func (f PublisherFunc) Publish(ctx context.Context, ev Event) error { return f(ctx, ev) }

// Reject marks an error of a Publisher as terminal: the event becomes a dead letter at once. It is nil for nil.
func Reject(err error) error {
	if err == nil {
		return nil
	}
	return &rejection{err}
}

type rejection struct{ error }

func (r *rejection) Unwrap() error { return r.error }

// Rejected is the code of a dead letter that [Reject] made, where its error has no code of its own.
const Rejected taxonomy.Code = "VALIDATION.rejected"

// A failing is what a Publisher's error means.
type failing struct {
	code     taxonomy.Code
	terminal bool
}

// judge classifies the error of a Publisher; sent is true when the event is acknowledged after all.
func judge(err error) (f failing, sent bool) {
	if err == nil {
		return failing{}, true
	}
	f.code = redo.CodeOf(err)
	if _, rejected := errors.AsType[*rejection](err); rejected {
		if f.terminal = true; f.code == "" {
			f.code = Rejected
		}
		return f, false
	}
	e, ours := errors.AsType[*redo.Error](err)
	_, again := errors.AsType[*refusal](err)
	switch {
	case f.code.In(taxonomy.Duplicate), ours && e.Effect == redo.Applied:
		return failing{}, true
	case again:
	case f.code.In(taxonomy.Caller), f.code == "" && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		f.code = taxonomy.Timeout // the attempt's own
	case f.code == taxonomy.ClientClosed: // says nothing about the event
	case f.code == "":
		f.code = taxonomy.Transient
	case ours:
		f.terminal = !redo.SafeToRetry(err)
	default:
		f.terminal = !f.code.Transient()
	}
	return f, false
}
