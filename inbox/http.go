package inbox

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
	"github.com/redo-go/redo/webhook"
)

// An Identify returns the event that a request delivers. Its error refuses the request with 400 and is sent to the
// producer, unless it is an [*Error] with another code. It must authenticate the producer: see [Delivered].
type Identify func(r *http.Request) (Event, error)

// Delivered returns the event of a delivery that the Handler of a webhook.Verifier has verified: the delivery's id,
// and its body as payload. The source is fixed, because each source has its own secrets.
func Delivered(source string) Identify {
	return func(r *http.Request) (Event, error) {
		d, ok := webhook.FromContext(r.Context())
		if !ok {
			return Event{}, &Error{Code: taxonomy.Configuration, Err: errUnverified}
		}
		return Event{Source: source, ID: d.ID, Payload: d.Body}, nil
	}
}

// Mistakes of the set-up.
var (
	errUnverified = errors.New("no webhook.Verifier is in front of the inbox")
	errNoIdentify = errors.New("the Identify is nil")
	errNoHandler  = errors.New("the handler is nil")
)

// Handler receives events over HTTP. Its responses suit a producer that treats any 2xx as an acknowledgement and
// delivers again after any other status:
//
//	200  handled, with Idempotency-Status: stored; or settled or a dead letter before, with replayed and
//	     Idempotent-Replayed: true
//	202  not handled, and kept: as a dead letter from now on, or by [Accept]
//	409  another delivery is being handled or rests, with Retry-After; or the id was used for another payload
//	503  the handler failed, or the store can't be reached, with Retry-After
//	4xx  the event can't be identified, or breaks a limit
//	500  the inbox is set up wrongly, or can't read its records
//
// Refusals are problem documents (RFC 9457). They do not contain the handler's error. The handler runs on when the
// producer disconnects.
func (in *Inbox) Handler(identify Identify, h Handler) http.Handler {
	return in.serve(identify, func(ctx context.Context, ev Event) (Receipt, error) { return in.Receive(ctx, ev, h) })
}

func (in *Inbox) serve(identify Identify, receive func(context.Context, Event) (Receipt, error)) http.Handler {
	if identify == nil {
		identify = func(*http.Request) (Event, error) {
			return Event{}, &Error{Code: taxonomy.Configuration, Err: errNoIdentify}
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		ev, err := identify(r)
		if err != nil {
			if _, ok := errors.AsType[*Error](err); !ok {
				err = &Error{Code: taxonomy.BadRequest, Err: err}
			}
			in.report(r.Context(), ev, call{}, Receipt{}, err, start)
			refuse(w, err)
			return
		}
		receipt, err := receive(context.WithoutCancel(r.Context()), ev)
		if err != nil {
			refuse(w, err)
			return
		}
		acknowledge(w, receipt)
	})
}

func acknowledge(w http.ResponseWriter, r Receipt) {
	status := http.StatusOK
	h := w.Header()
	switch r.Status {
	case Replayed:
		h.Set(wire.HeaderStatus, wire.StatusReplayed)
		h.Set(wire.HeaderReplayed, "true")
	case DeadLettered, Accepted:
		status = http.StatusAccepted
		fallthrough
	default:
		h.Set(wire.HeaderStatus, wire.StatusStored)
	}
	w.WriteHeader(status)
}

// problems are the problem documents by code.
var problems = map[taxonomy.Code]struct {
	status        int
	title, detail string
}{
	taxonomy.InFlight: {
		http.StatusConflict, "Event in flight", "It is being handled, or rests after a failure.",
	},
	taxonomy.PayloadMismatch: {http.StatusConflict, "Event id used for another payload", "That event is not settled."},
	taxonomy.Unavailable:     {http.StatusServiceUnavailable, "Temporarily unavailable", "The store is down."},
	HandlerFailed:            {http.StatusServiceUnavailable, "Event not handled", "Deliver the event again."},
	Unreadable: {
		http.StatusInternalServerError, "Record unreadable", "The event's record can't be read.",
	},
	taxonomy.BadRequest:      {http.StatusBadRequest, "Event refused", ""},
	taxonomy.ContentTooLarge: {http.StatusRequestEntityTooLarge, "Event too large", ""},
}

// refuse sends the response to a delivery that must not be acknowledged.
func refuse(w http.ResponseWriter, err error) {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		e = &Error{Code: taxonomy.Internal, Err: err}
	}
	problem, known := problems[e.Code]
	if !known {
		problem.status, problem.title = http.StatusInternalServerError, "Misconfigured"
		problem.detail = "The inbox is set up wrongly."
	}
	switch {
	case problem.detail != "":
	case e.Err == nil: // an Identify may give no reason
		problem.detail = "The event is refused."
	default:
		problem.detail = "The event is refused: " + e.Err.Error() + "."
	}
	switch e.Code {
	case taxonomy.InFlight, taxonomy.Unavailable, HandlerFailed:
		w.Header().Set(wire.HeaderRetryAfter, wire.RetryAfter(e.RetryAfter))
	}
	wire.WriteProblem(w, wire.Problem{
		Title: problem.title, Status: problem.status, Detail: problem.detail,
		Code: string(e.Code), Retryable: e.Code.Transient(),
	})
}
