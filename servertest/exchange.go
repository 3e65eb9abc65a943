package servertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// An exchange is one request and what the server makes of it. Its methods are the words that faults are written in.
type exchange struct {
	srv     *Server
	w       http.ResponseWriter
	r       *http.Request
	conn    *wireConn
	request *Request
	step    *step // nil when no script had one
	body    []byte
	bodyErr error // why the body is not whole

	before   int64 // what the connection had written when the request had come
	answered bool  // net/http may end the request in good order, or has lost the connection to us
}

// play plays the request's step.
func (x *exchange) play() {
	if x.step == nil {
		x.pass()
		return
	}
	x.step.fault.play(x)
}

// come takes the exchange to the step that it is to play, until its rest.
func (x *exchange) come(st *step) {
	x.step = st
	st.play(1)
}

// rest is the exchange's end, whatever it was.
func (x *exchange) rest() {
	if x.step != nil {
		x.step.play(-1)
	}
}

// fired notes that the fault came to pass, or why it did not.
func (x *exchange) fired(err error) {
	if x.step != nil {
		x.step.mark(err)
	}
}

// readBody reads the request's body to its end. What breaks it off is handed on to the service.
func (x *exchange) readBody() {
	x.body, x.bodyErr = io.ReadAll(x.r.Body)
	x.srv.ledger.carried(x.request, x.body)
	x.before = x.conn.written.Load()
}

// pass lets the service answer the client itself, in the request's own context.
func (x *exchange) pass() {
	if x.step != nil && x.step.fault.fields != nil {
		x.send(x.process()) // only a whole answer can be added to
		return
	}
	x.fired(nil)
	x.answered = true
	x.srv.service.ServeHTTP(x.w, x.visit(x.r.Context(), &visit{}))
}

// hold waits for d, which is the fault itself. It returns false when the server closes meanwhile.
func (x *exchange) hold(d time.Duration) bool {
	x.fired(nil)
	return x.wait(x.srv.ctx, d)
}

// wait waits for d and reports whether it passed before the context and the server ended.
func (x *exchange) wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-x.srv.ctx.Done():
	}
	return false
}

// send puts the answer on the wire, which is the fault itself.
func (x *exchange) send(a *answer) { x.fired(x.put(a)) }

// put puts the answer on the wire, and returns an error unless bytes of it got there.
func (x *exchange) put(a *answer) error {
	if err := x.begin(a); err != nil {
		return err
	}
	if x.hasBody(a) {
		// What fails here fails in flush too.
		_, _ = x.w.Write(a.body.Bytes())
	}
	return x.flush()
}

// begin hands the answer's status and header to net/http, which keeps them until there is more to write.
func (x *exchange) begin(a *answer) error {
	if err := x.there(); err != nil {
		return err
	}
	x.adorn(a)
	x.answered = true
	header := x.w.Header()
	for name, values := range a.header {
		header[name] = values
	}
	x.w.WriteHeader(a.status)
	return nil
}

// flush empties net/http's buffer, and returns an error unless bytes of the answer are on the connection. That the
// client hung up on the rest is its own affair.
func (x *exchange) flush() error {
	err := http.NewResponseController(x.w).Flush()
	if x.conn.written.Load() > x.before {
		return nil
	}
	return errors.Join(errors.New("servertest: no byte of the answer was written to the connection"), err)
}

// adorn adds the fault's own header fields.
func (x *exchange) adorn(a *answer) {
	if x.step == nil {
		return
	}
	for _, f := range x.step.fault.fields {
		a.header.Del(f.name)
	}
	now := time.Now()
	for _, f := range x.step.fault.fields {
		a.header.Add(f.name, f.value(now))
	}
}

func (x *exchange) hasBody(a *answer) bool { return a.hasBody() && x.r.Method != http.MethodHead }

// sendSlowBody sends the body in parts.
func (x *exchange) sendSlowBody(a *answer, d time.Duration) {
	body := a.body.Bytes()
	if !x.hasBody(a) || len(body) == 0 {
		x.fired(errors.New("servertest: the answer has no body that could be slow"))
		_ = x.put(a)
		return
	}
	err := x.begin(a)
	if err == nil {
		err = x.flush()
	}
	x.fired(err)
	parts := min(bodyParts, len(body))
	for i := 0; i < parts && err == nil; i++ {
		if !x.wait(x.r.Context(), d) {
			panic(http.ErrAbortHandler) // the answer is not whole, and must not look so
		}
		if _, err = x.w.Write(body[len(body)*i/parts : len(body)*(i+1)/parts]); err == nil {
			err = http.NewResponseController(x.w).Flush()
		}
	}
}

// seize takes the connection out of net/http's hands. Whoever seizes it closes it.
func (x *exchange) seize() error {
	if _, _, err := http.NewResponseController(x.w).Hijack(); err != nil {
		return fmt.Errorf("servertest: take over the connection: %w", err)
	}
	x.answered = true
	return nil
}

// reset ends the connection with a RST and without a byte of an answer.
func (x *exchange) reset() { x.fired(x.end((*wireConn).Reset)) }

// close ends the connection with a FIN and without a byte of an answer.
func (x *exchange) close() { x.fired(x.end((*wireConn).Close)) }

func (x *exchange) end(how func(*wireConn) error) error {
	if err := errors.Join(x.there(), x.seize()); err != nil {
		return err
	}
	err := how(x.conn)
	if n := x.conn.written.Load() - x.before; n != 0 {
		err = errors.Join(err, fmt.Errorf("servertest: %d bytes of an answer were written before the connection ended", n))
	}
	return err
}

// there returns an error when the client is known to have gone: what is done now does not reach it.
func (x *exchange) there() error {
	if x.r.Context().Err() != nil {
		return errors.New("servertest: the client had gone")
	}
	return nil
}

// sendSlowHeader sends the status line, and what follows it d later.
func (x *exchange) sendSlowHeader(a *answer, d time.Duration) {
	if err := errors.Join(x.there(), x.seize()); err != nil {
		x.fired(err)
		return
	}
	defer func() { _ = x.conn.Close() }() // the server's Close may have come first
	x.adorn(a)
	status, rest := x.raw(a)
	_, err := x.conn.Write(status)
	x.fired(err)
	if err == nil && x.wait(x.srv.ctx, d) {
		if x.hasBody(a) {
			rest = append(rest, a.body.Bytes()...)
		}
		_, _ = x.conn.Write(rest) // the fault has fired; the client may have had enough
	}
}

// sendTruncated sends less than Content-Length says.
func (x *exchange) sendTruncated(a *answer, n int) {
	if !x.hasBody(a) {
		x.fired(errors.New("servertest: the answer has no body that could be truncated"))
		_ = x.put(a)
		return
	}
	if err := errors.Join(x.there(), x.seize()); err != nil {
		x.fired(err)
		return
	}
	body := a.body.Bytes()
	x.adorn(a)
	a.header.Set("Content-Length", strconv.Itoa(max(len(body), n+1)))
	status, rest := x.raw(a)
	whole := append(append(status, rest...), body[:min(n, len(body))]...)
	_, err := x.conn.Write(whole)
	closed := x.conn.Close()
	if errors.Is(closed, net.ErrClosed) {
		closed = nil // the client was back, and the server's Close before ours
	}
	x.fired(errors.Join(err, closed))
}

// raw returns the answer's head for a connection that net/http no longer keeps.
func (x *exchange) raw(a *answer) (status, header []byte) {
	a.header.Set("Connection", "close")
	if a.header.Get("Date") == "" {
		a.header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	}
	return a.head()
}
