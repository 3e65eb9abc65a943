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

// exchange is one request and the server's response to it. Faults are written with its methods.
type exchange struct {
	srv     *Server
	w       http.ResponseWriter
	r       *http.Request
	conn    *wireConn
	request *Request
	step    *step // nil when no script had one
	body    []byte
	bodyErr error // the reason why the body is incomplete

	before   int64 // the bytes that the connection had written when the request arrived
	answered bool  // net/http may end the request in good order, or the connection was hijacked
}

// play plays the request's step.
func (x *exchange) play() {
	if x.step == nil {
		x.pass()
		return
	}
	x.step.fault.play(x)
}

// come takes the exchange to its step, until rest.
func (x *exchange) come(st *step) {
	x.step = st
	st.play(1)
}

// rest ends the exchange, with any result.
func (x *exchange) rest() {
	if x.step != nil {
		x.step.play(-1)
	}
}

// fired records that the fault occurred, or the error that prevented it.
func (x *exchange) fired(err error) {
	if x.step != nil {
		x.step.mark(err)
	}
}

// readBody reads the request's body to its end. If the body breaks off, the service gets the same error.
func (x *exchange) readBody() {
	x.body, x.bodyErr = io.ReadAll(x.r.Body)
	x.srv.ledger.carried(x.request, x.body)
	x.before = x.conn.written.Load()
}

// pass lets the service respond directly to the client, in the request's own context.
func (x *exchange) pass() {
	if x.step != nil && x.step.fault.fields != nil {
		x.send(x.process()) // header fields can be added only to a whole response
		return
	}
	x.fired(nil)
	x.answered = true
	x.serve(x.w, x.visit(x.r.Context(), &visit{}))
}

// serve runs the service.
func (x *exchange) serve(w http.ResponseWriter, r *http.Request) {
	returned := false
	defer func() {
		if !returned && x.step != nil {
			x.step.spoil()
		}
		if f := r.MultipartForm; f != nil {
			_ = f.RemoveAll() // net/http removes the files of its own request only
		}
	}()
	x.srv.service.ServeHTTP(w, r)
	returned = true
}

// hold waits for d, which is the fault itself. It returns false if the server closes meanwhile.
func (x *exchange) hold(d time.Duration) bool {
	x.fired(nil)
	return x.wait(x.srv.ctx, d)
}

// wait waits for d. It reports whether d passed before the context and the server ended.
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

// send writes the response to the connection, which is the fault itself.
func (x *exchange) send(a *answer) { x.fired(x.put(a)) }

// put writes the response to the connection. It returns an error if no byte of it was sent.
func (x *exchange) put(a *answer) error {
	if err := x.begin(a); err != nil {
		return err
	}
	if x.hasBody(a) {
		// An error here recurs in flush.
		_, _ = x.w.Write(a.body.Bytes())
	}
	return x.flush()
}

// begin passes the response's status and header to net/http, which buffers them until there is more to write.
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

// flush empties net/http's buffer. It returns an error unless bytes of the response are on the connection. A
// client that then hangs up is not an error.
func (x *exchange) flush() error {
	err := http.NewResponseController(x.w).Flush()
	if x.conn.written.Load() > x.before {
		return nil
	}
	return errors.Join(errors.New("servertest: no byte of the response was written to the connection"), err)
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
		x.fired(errors.New("servertest: the response has no body that could be slow"))
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
			panic(http.ErrAbortHandler) // the response is incomplete and must not look complete
		}
		if _, err = x.w.Write(body[len(body)*i/parts : len(body)*(i+1)/parts]); err == nil {
			err = http.NewResponseController(x.w).Flush()
		}
	}
}

// seize hijacks the connection from net/http. The caller closes it.
func (x *exchange) seize() error {
	if _, _, err := http.NewResponseController(x.w).Hijack(); err != nil {
		return fmt.Errorf("servertest: take over the connection: %w", err)
	}
	x.answered = true
	return nil
}

// reset ends the connection with a RST and without a byte of a response.
func (x *exchange) reset() { x.fired(x.end((*wireConn).Reset)) }

// close ends the connection with a FIN and without a byte of a response.
func (x *exchange) close() { x.fired(x.end((*wireConn).Close)) }

func (x *exchange) end(how func(*wireConn) error) error {
	if err := errors.Join(x.there(), x.seize()); err != nil {
		return err
	}
	err := how(x.conn)
	if n := x.conn.written.Load() - x.before; n != 0 {
		err = errors.Join(err,
			fmt.Errorf("servertest: %d bytes of a response were written before the connection ended", n))
	}
	return err
}

// there returns an error if the client is known to be gone, so that a fault can no longer reach it.
func (x *exchange) there() error {
	if x.r.Context().Err() != nil {
		return errors.New("servertest: the client had gone")
	}
	return nil
}

// sendSlowHeader sends the status line, and the rest d later.
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
		_, _ = x.conn.Write(rest) // the fault has fired; the client may be gone
	}
}

// sendTruncated sends fewer bytes than Content-Length declares.
func (x *exchange) sendTruncated(a *answer, n int) {
	if !x.hasBody(a) {
		x.fired(errors.New("servertest: the response has no body that could be truncated"))
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
		closed = nil // the client saw the end, and the server closed the connection first
	}
	x.fired(errors.Join(err, closed))
}

// raw returns the response's head for a connection that net/http no longer owns.
func (x *exchange) raw(a *answer) (status, header []byte) {
	a.header.Set("Connection", "close")
	if a.header.Get("Date") == "" {
		a.header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	}
	return a.head()
}
