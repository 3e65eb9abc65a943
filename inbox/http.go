package inbox

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
	"github.com/redo-go/redo/webhook"
)

// An Identify returns the event that a request delivers. Its error refuses the request with 400 and is sent to the
// producer, unless it is an [*Error] with a code of its own. It must authenticate the producer: see [Delivered].
type Identify func(r *http.Request) (Event, error)

// Delivered returns the event of a delivery that the Handler of a webhook.Verifier has verified: the delivery's id, and
// its body as payload. The source is fixed, because each source has its own secrets.
func Delivered(source string) Identify {
	return func(r *http.Request) (Event, error) {
		d, ok := webhook.FromContext(r.Context())
		if !ok {
			return Event{}, &Error{Code: taxonomy.Configuration, Err: errUnverified}
		}
		return Event{Source: source, ID: d.ID, Payload: d.Body}, nil
	}
}

var errUnverified = errors.New("no webhook.Verifier stands before the inbox")

// Handler receives events over HTTP. Its responses suit a producer that treats any 2xx as an acknowledgement and
// delivers again after any other status:
//
//	200  handled, with Idempotency-Status: stored; or settled before, with replayed and Idempotent-Replayed: true
//	202  not known to be handled, and kept as a dead letter
//	409  another delivery is being handled or rests, with Retry-After; or the id was used for another payload
//	503  the handler failed, or the store can't be reached, with Retry-After
//	4xx  the event can't be identified, or breaks a limit
//	500  the inbox is set up wrongly, or can't read its records
//
// Refusals are problem documents (RFC 9457). They do not contain the handler's error. The handler runs on when the
// producer disconnects.
func (in *Inbox) Handler(identify Identify, h Handler) http.Handler {
	return serve(identify, func(ctx context.Context, ev Event) (Receipt, error) { return in.Receive(ctx, ev, h) })
}

func serve(identify Identify, receive func(context.Context, Event) (Receipt, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ev, err := identify(r)
		if err != nil {
			if _, ok := errors.AsType[*Error](err); !ok {
				err = &Error{Code: taxonomy.BadRequest, Err: err}
			}
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
	case DeadLettered:
		status = http.StatusAccepted
		fallthrough
	default:
		h.Set(wire.HeaderStatus, wire.StatusStored)
	}
	w.WriteHeader(status)
}

// answers are the problem documents by code.
var answers = map[taxonomy.Code]struct {
	status        int
	title, detail string
}{
	taxonomy.InFlight:        {http.StatusConflict, "Event in flight", "Another delivery of this event is being handled, or was and is to be repeated later."},
	taxonomy.PayloadMismatch: {http.StatusConflict, "Event id used for another payload", "An event with this id and another payload was received before."},
	taxonomy.Unavailable:     {http.StatusServiceUnavailable, "Temporarily unavailable", "The outcome of the event can't be recorded now."},
	HandlerFailed:            {http.StatusServiceUnavailable, "Event not handled", "The event could not be handled. Deliver it again."},
	Unreadable:               {http.StatusInternalServerError, "Record unreadable", "The record of this event can't be read."},
	taxonomy.BadRequest:      {http.StatusBadRequest, "Event refused", ""},
	taxonomy.ContentTooLarge: {http.StatusRequestEntityTooLarge, "Event too large", ""},
}

// refuse sends the response to a delivery that must not be acknowledged.
func refuse(w http.ResponseWriter, err error) {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		e = &Error{Code: taxonomy.Internal, Err: err}
	}
	answer, known := answers[e.Code]
	if !known {
		answer.status, answer.title, answer.detail = http.StatusInternalServerError, "Misconfigured", "The inbox is set up wrongly."
	}
	switch {
	case answer.detail != "":
	case e.Err == nil: // an Identify need not say why
		answer.detail = "The event is refused."
	default:
		answer.detail = "The event is refused: " + e.Err.Error() + "."
	}
	switch e.Code {
	case taxonomy.InFlight, taxonomy.Unavailable, HandlerFailed:
		w.Header().Set(wire.HeaderRetryAfter, strconv.FormatInt(seconds(e.RetryAfter), 10))
	}
	wire.WriteProblem(w, wire.Problem{
		Title: answer.title, Status: answer.status, Detail: answer.detail, Code: string(e.Code), Retryable: e.Code.Transient(),
	})
}

// seconds rounds d up, to one at least.
func seconds(d time.Duration) int64 {
	return max(1, int64(math.Ceil(d.Seconds())))
}
