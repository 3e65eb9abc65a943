package onekey

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/redo-go/redo/server"
)

// A policy decides whether the handler runs for a key whose owner died.
type policy int

const (
	reexecuting policy = iota
	refusing
	recovering
	policies
)

// Texts of responses that are final. A success has the effect's name.
const (
	refusal = "the card is declined"
	failure = "the order is too old"
)

// serve is the route's handler.
func (p *process) serve(w http.ResponseWriter, r *http.Request) {
	l, ctx := p.life, r.Context()
	fence, taken := server.Fence(ctx), server.TakenOver(ctx)
	l.Log("%s runs the handler: fence %d, taken over: %v", p.Name, fence, taken)
	p.rest(ctx)
	if !l.ledger.enter(fence) {
		p.respond(w, http.StatusServiceUnavailable, "a later owner has come")
		return
	}
	switch made := l.ledger.all(); {
	case taken && l.policy == refusing:
		l.Violate("the handler runs for a key that was taken over, although the route refuses that")
	case taken && l.policy == reexecuting && len(made) > 0: // an honest handler reads its effect back
		p.found(ctx, w, made[0], false)
		return
	}
	if p.endsBefore(ctx, w) {
		return
	}
	id := fmt.Sprintf("effect-%d-%d", fence, l.Draw(1000))
	if l.policy == recovering || l.Draw(2) == 0 {
		err := server.Checkpoint(ctx, []byte(id))
		l.Log("%s: checkpoint %s: %v", p.Name, id, err)
		p.live()
		if err != nil {
			p.respond(w, http.StatusServiceUnavailable, "no checkpoint")
			return
		}
		if l.Chance(10) {
			p.die()
		}
		p.rest(ctx)
	}
	p.live()
	if !l.ledger.apply(fence, id) {
		p.respond(w, http.StatusServiceUnavailable, "a later owner has come")
		return
	}
	l.Log("%s makes %s", p.Name, id)
	p.endAfter(ctx, w, http.StatusCreated, id, false)
}

// endsBefore ends some handlers without an effect.
func (p *process) endsBefore(ctx context.Context, w http.ResponseWriter) bool {
	l := p.life
	if !l.Chance(50) {
		return false
	}
	switch l.Draw(8) {
	case 0:
		p.respond(w, http.StatusUnprocessableEntity, refusal)
	case 1:
		p.respond(w, []int{401, 429, 500, 503}[l.Draw(4)], "later")
	case 2:
		l.Log("%s panics", p.Name)
		panic("a handler's error")
	case 3:
		l.Log("%s runs out of time", p.Name)
		<-ctx.Done()
	case 4:
		p.die()
	case 5:
		server.Release(ctx)
		p.respond(w, http.StatusConflict, "released")
	case 6:
		server.Fail(ctx)
		p.respond(w, http.StatusInternalServerError, failure)
	case 7:
		server.Unknown(ctx) // it does not know, and nothing was done
		p.respond(w, http.StatusBadGateway, "unknown")
	}
	return true
}

// endAfter ends a handler whose effect is made. marked is true if Applied was called.
func (p *process) endAfter(ctx context.Context, w http.ResponseWriter, status int, id string, marked bool) {
	l := p.life
	p.rest(ctx)
	if !l.Chance(60) {
		p.respond(w, status, id)
		return
	}
	if l.Draw(2) == 0 {
		marked = p.mark(ctx)
	}
	// Without a mark, a panic or a timeout releases the key of a route whose handler may run again.
	forgiven := marked || l.policy != reexecuting
	switch n := l.Draw(7); {
	case n == 0:
		p.die()
	case n == 1 && !marked:
		server.Unknown(ctx)
		p.respond(w, http.StatusBadGateway, "unknown")
	case n == 2:
		p.respond(w, status, id+strings.Repeat(".", maxResponse))
	case n == 3:
		l.marked.Store(true)
		p.respond(w, status, id)
		panic(http.ErrAbortHandler)
	case n == 4 && forgiven:
		l.Log("%s panics", p.Name)
		panic("a handler's error")
	case n == 5 && forgiven:
		l.Log("%s runs out of time", p.Name)
		<-ctx.Done()
	case n == 6 && marked:
		p.respond(w, http.StatusInternalServerError, id) // it is stored, with any status
	default:
		p.respond(w, status, id)
	}
}

var errUnreadable = errors.New("the ledger can't be read now")

// recover is the function given to Recover. It finds the effect by the checkpoint.
func (p *process) recover(ctx context.Context, _ *http.Request, _ string, meta []byte) (http.Handler, error) {
	l, fence := p.life, server.Fence(ctx)
	l.Log("%s recovers: fence %d, checkpoint %q", p.Name, fence, meta)
	p.live()
	if !l.ledger.enter(fence) {
		return nil, errUnreadable
	}
	if l.Chance(20) {
		switch l.Draw(3) {
		case 0:
			return nil, errUnreadable
		case 1:
			p.die()
		case 2:
			panic("an error of the function given to Recover")
		}
	}
	id := string(meta)
	if !l.ledger.has(id) {
		return nil, nil //nolint:nilnil // nothing was done
	}
	marked := l.Chance(30) && p.mark(ctx)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.found(r.Context(), w, id, marked) }), nil
}

// found responds with an effect that an earlier owner of the key has made.
func (p *process) found(ctx context.Context, w http.ResponseWriter, id string, marked bool) {
	if !marked && p.life.Chance(30) { // it says nothing about the effect: the key stays taken over
		p.respond(w, http.StatusServiceUnavailable, "later")
		return
	}
	p.endAfter(ctx, w, http.StatusOK, id, marked)
}

// mark calls Applied. After an error the mark holds in this process alone.
func (p *process) mark(ctx context.Context) bool {
	p.life.marked.Store(true)
	err := server.Applied(ctx)
	p.life.Log("%s: applied: %v", p.Name, err)
	p.live()
	return true
}

func (p *process) respond(w http.ResponseWriter, status int, text string) {
	p.live()
	p.life.Log("%s responds: %d %.40q", p.Name, status, text)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// rest lets time pass within a handler, sometimes more than a lease.
func (p *process) rest(ctx context.Context) {
	select {
	case <-time.After(p.life.Span(handlerTimeout / 3)):
	case <-ctx.Done():
	}
	p.live()
}
