package console

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/redo-go/redo"
)

// An Act is a change that an operator requested. It contains no payload and no credentials of a URL.
type Act struct {
	// Author is the name that [Authenticate] returned, or that of [Author].
	Author string
	// Action is "resume", "settle", "forget", "redrive", "redrive selection" or "enable".
	Action string
	// Operation and Key name the operation. They are empty for other acts.
	Operation, Key string
	// Effect and Evidence are the finding of "settle".
	Effect   redo.Effect
	Evidence string
	// Queue, Event and Destination name the event. Event is empty for a selection and for "enable". An empty
	// Destination of a selection means all. The Destination has no query.
	Queue, Event, Destination string
	// Type is the type of the selected events. It is empty for all types.
	Type string
	// Redriven is the number of letters that were redriven.
	Redriven int
	// Err is nil if the act was done.
	Err error
}

// logAct is the default of [Audit].
func logAct(ctx context.Context, a Act) {
	level, attrs := slog.LevelInfo, []slog.Attr{slog.String("action", a.Action), slog.String("author", a.Author)}
	for _, part := range []struct{ name, text string }{
		{"operation", a.Operation}, {"key", a.Key}, {"evidence", a.Evidence}, {"queue", a.Queue}, {"event", a.Event},
		{"destination", a.Destination}, {"type", a.Type},
	} {
		if part.text != "" {
			attrs = append(attrs, slog.String(part.name, part.text))
		}
	}
	if a.Effect != redo.EffectUnknown {
		attrs = append(attrs, slog.String("effect", a.Effect.String()))
	}
	if a.Redriven > 0 {
		attrs = append(attrs, slog.Int("redriven", a.Redriven))
	}
	if a.Err != nil {
		level, attrs = slog.LevelWarn, append(attrs, slog.Any("error", a.Err))
	}
	slog.Default().LogAttrs(ctx, level, "console act", attrs...)
}

// report sends an act to the audit.
func (c *Console) report(r *http.Request, a Act) {
	a.Author = author(r)
	c.audit(context.WithoutCancel(r.Context()), a)
}
