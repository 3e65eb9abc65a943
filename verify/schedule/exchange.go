package schedule

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/redo-go/redo/taxonomy"
)

// A stage is where a request is.
type stage uint8

const (
	leaving    stage = iota // nothing is sent yet
	travelling              // on the wire, in front of the server's record
	working                 // the server holds the key and runs the handler
	returning               // the response is on the wire; the effect is decided
	gone                    // no more steps
)

var stageNames = [...]string{"send", "arrive", "work", "receive", "gone"}

// An exchange is one request on the wire. It outlives its client's interest: after a timeout, a reset or a crash it
// goes on without a goroutine, as a stray.
type exchange struct {
	process int
	call    int
	key     string
	stage   stage
	reply   *reply // nil before the stage returning
}

// Errors of the wire.
var (
	errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	errReset   = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	errOver    = errors.New("schedule: the process was killed")
)

// RoundTrip implements http.RoundTripper for one process.
func (p *process) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer func() { _ = req.Body.Close() }()
	}
	r := p.run
	x := &exchange{process: p.number, call: callOf(req.Context())}
	x.key = strings.Trim(req.Header.Get("Idempotency-Key"), `"`)
	for {
		if !p.park(&turn{call: x.call, what: stageNames[x.stage], exchange: x}) {
			return nil, errOver
		}
		if err := req.Context().Err(); err != nil {
			r.log(x, "the client gave up")
			r.abandon(x)
			return nil, context.Cause(req.Context())
		}
		rep, hangs, err := r.advance(x)
		switch {
		case hangs:
			r.abandon(x)
			select {
			case <-req.Context().Done():
				return nil, context.Cause(req.Context())
			case <-r.ended:
				return nil, errOver
			}
		case err != nil:
			r.abandon(x)
			return nil, err
		case rep != nil:
			return rep.response(req), nil
		}
	}
}

// advance moves a request whose client waits for it by one stage. It returns a reply or an error for the client.
// hangs reports that the client gets neither, until its attempt times out. All three are zero if the client must
// wait for more stages.
func (r *run) advance(x *exchange) (rep *reply, hangs bool, err error) {
	n := 1000 // no fault
	if !r.calm {
		n = r.rng.IntN(100)
	}
	switch x.stage {
	case leaving:
		if n < r.faults.dial {
			r.log(x, "connection refused")
			x.stage = gone
			return nil, false, errRefused
		}
		r.send(x)
		return nil, false, nil
	case travelling:
		switch {
		case n < r.faults.gateway:
			x.reply = &reply{status: pick(r.rng, r.faults.refusals...)}
			x.stage = returning
			r.logStatus(x, "the gateway refuses with", x.reply.status)
			return nil, false, nil
		case n < r.faults.gateway+r.faults.lost:
			return nil, n%2 == 0, r.lose(x)
		}
		r.arrive(x)
		return nil, false, nil
	case working:
		if n < r.faults.lost {
			return nil, n%2 == 0, r.lose(x)
		}
		r.finish(x)
		return nil, false, nil
	}
	x.stage = gone
	switch {
	case n < r.faults.lost/2:
		r.log(x, "the response is lost")
		return nil, false, errReset
	case n < r.faults.lost:
		r.log(x, "the gateway replaces the response with 503")
		return &reply{status: http.StatusServiceUnavailable}, false, nil
	}
	r.logStatus(x, "response", x.reply.status)
	return x.reply, false, nil
}

// lose separates the client from a request that goes on.
func (r *run) lose(x *exchange) error {
	r.log(x, "the connection is lost, the request goes on")
	return errReset
}

// send puts a request on the wire. No other key of the operation may have an effect, then or later.
func (r *run) send(x *exchange) {
	x.stage = travelling
	r.exchanges = append(r.exchanges, x)
	r.logKey(x, "on the wire with", x.key)
	if !r.live(x.key) {
		return
	}
	for key := range r.keys {
		if key != x.key && r.live(key) {
			r.violate(twoKeys, "p%d.%d sends %s, and %s has had its effect or can still have it",
				x.process, x.call, r.keyName(x.key), r.keyName(key))
		}
	}
}

// live reports whether a request under the key has had its effect or can still have it.
func (r *run) live(key string) bool {
	rec := r.server.record(key)
	if rec.effects > 0 {
		return true
	}
	if rec.stored != nil && !r.server.keyless {
		return false
	}
	return r.pending(key)
}

// pending reports whether a request under way can still have an effect. An empty key means every key.
func (r *run) pending(key string) bool {
	for _, x := range r.exchanges {
		if key != "" && x.key != key {
			continue
		}
		rec := r.server.record(x.key)
		switch {
		case x.stage == working && rec.fate.effect:
			return true
		case x.stage == travelling && !rec.working && (rec.stored == nil || r.server.keyless):
			return true
		}
	}
	return false
}

// arrive is the server's first look at a request.
func (r *run) arrive(x *exchange) {
	rec := r.server.record(x.key)
	switch {
	case rec.stored != nil && !r.server.keyless:
		x.reply, x.stage = rec.stored, returning
		r.logStatus(x, "the server replays", rec.stored.status)
	case rec.working:
		x.reply, x.stage = &reply{status: http.StatusConflict, code: string(taxonomy.InFlight)}, returning
		r.log(x, "the server responds that the key is in flight")
	default:
		rec.working, rec.fate = true, r.drawFate()
		x.stage = working
		r.log(x, "the server begins")
	}
}

func (r *run) drawFate() fate {
	n := r.rng.IntN(20)
	for _, f := range fates {
		if n -= f.weight; n < 0 {
			return f.fate
		}
	}
	return fates[0].fate
}

// finish has the effect, if any, and stores the outcome.
func (r *run) finish(x *exchange) {
	rec := r.server.record(x.key)
	x.reply, x.stage = r.server.store(rec), returning
	if !rec.fate.effect {
		r.logStatus(x, "no effect, and the server stores", x.reply.status)
		return
	}
	r.logStatus(x, "EFFECT, and the server stores", x.reply.status)
	if n := r.server.effects(); n > 1 {
		r.violate(twoEffects, "effect %d, under %s, for p%d.%d", n, r.keyName(x.key), x.process, x.call)
	}
}

// abandon leaves a request to itself. It becomes a stray if it is on the wire.
func (r *run) abandon(x *exchange) {
	if x.stage == travelling || x.stage == working {
		r.strays = append(r.strays, x)
		return
	}
	x.stage = gone
}

// stray moves a request that no client waits for by one stage, or drops it on the wire.
func (r *run) stray(x *exchange) {
	switch {
	case x.stage == travelling && r.rng.IntN(4) == 0:
		r.log(x, "dropped on the wire")
		x.stage = gone
	case x.stage == travelling:
		r.arrive(x)
	case x.stage == working:
		r.finish(x)
	}
	if x.stage == returning {
		x.stage = gone
	}
}
