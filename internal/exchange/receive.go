package exchange

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

// MaxErrorBody is the number of bytes of an error's body that are read. It is enough for a problem document. It is also
// more than go-retryablehttp drains, so that the connection survives an ordinary error page.
const MaxErrorBody = 64 << 10

// errorBodyPatience bounds the reading of an error's body if the exchange has no time limit.
const errorBodyPatience = 10 * time.Second

// A Reading sets how much of a success's body is read within the exchange. The zero Reading reads none.
type Reading struct {
	// Whole, if not zero, is the number of bytes up to which the whole body is read. A longer one is an error.
	Whole int
	// Head, if not zero, is the number of bytes up to which the body is read. The caller reads the rest of a longer
	// one. A response that streams is read only if its length is known.
	Head int
}

// A Received holds the part of a response's body that was read within the exchange.
type Received struct {
	Head []byte
	// Cut is the reason why Head is not the whole body, and nil if it is. It has no meaning while Head is nil.
	Cut error
}

// Receive reads a part of the response of Send. The time limit holds until Receive returns. It does not bound the part
// of a body that the caller reads. The error means that the response was lost. It matches ErrTimeout if the time limit
// caused it.
func (x *Exchange) Receive(resp *http.Response, want Reading) (Received, error) {
	got, err := x.receive(resp, want)
	return got, x.explain(err)
}

// Fail releases the resources of an exchange whose response is missing or not used. It returns err, or ErrTimeout
// with it if the time limit caused it.
func (x *Exchange) Fail(resp *http.Response, err error) error {
	if resp != nil {
		_ = resp.Body.Close()
	}
	err = x.explain(err)
	x.clock.release()
	return err
}

func (x *Exchange) receive(resp *http.Response, want Reading) (Received, error) {
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols && want.Whole > 0: // a connection has no end
		return Received{}, x.lose(resp, nil)
	case resp.StatusCode == http.StatusSwitchingProtocols:
		if connection, writable := resp.Body.(io.Writer); writable && x.clock.cancel != nil {
			resp.Body = connectionBody{x.clock.over(resp.Body), connection}
		}
		x.clock.stop()
		return Received{}, nil
	case resp.StatusCode >= 400, resp.StatusCode < 100, want.Whole > 0 && resp.StatusCode/100 != 2: // no success
		return x.receiveError(resp)
	case want.Whole > 0:
		return x.receiveWhole(resp, want.Whole)
	case want.Head > 0 && (resp.ContentLength >= 0 || !wire.Streams(resp)):
		return x.receiveHead(resp, want.Head)
	case resp.Body == http.NoBody:
		x.clock.release()
		return Received{}, nil
	}
	return Received{}, x.handOver(resp, nil)
}

// handOver stops the clock and gives the body to the caller: first head, which was read already, then the rest.
func (x *Exchange) handOver(resp *http.Response, head []byte) error {
	if !x.clock.stop() {
		return x.lose(resp, ErrTimeout)
	}
	body := resp.Body
	if len(head) > 0 {
		body = rejoin(head, body)
	}
	resp.Body = x.clock.over(body)
	return nil
}

// lose drops a response whose body broke off. It keeps the status for the attempt's record.
func (x *Exchange) lose(resp *http.Response, err error) error {
	_ = resp.Body.Close()
	x.clock.release()
	resp.Body = http.NoBody
	return err
}

// held replaces the body, which was read to its end, by b.
func (x *Exchange) held(resp *http.Response, b []byte) Received {
	_ = resp.Body.Close()
	x.clock.release()
	resp.Body = io.NopCloser(bytes.NewReader(b))
	return Received{Head: b}
}

// receiveError reads the head of an error's body. Under an outer client the caller gets all of a longer one.
func (x *Exchange) receiveError(resp *http.Response) (Received, error) {
	reading := x.clock
	if x.Outer {
		// No clock runs, and a body that stalls must not hold the call. A body that is closed early ends with an error.
		body := resp.Body
		reading.timer = time.AfterFunc(errorBodyPatience, func() { _ = body.Close() })
		defer reading.timer.Stop()
	}
	head, err := wire.ReadHead(resp.Body, resp.ContentLength, MaxErrorBody)
	if err == nil && len(head) == MaxErrorBody && x.Outer && reading.stop() {
		resp.Body = rejoin(head, resp.Body)
		return Received{head, io.ErrUnexpectedEOF}, nil
	}
	_ = resp.Body.Close()
	x.clock.release()
	resp.Body = ErrorBody(head, err)
	return Received{head, err}, err
}

// Demote makes a success that was received like the response of an error, because it means a failure. The caller gets
// the head of its body. Under an outer client it gets all of a longer one, and all of a stream, of which nothing was
// read yet. A stream is closed if again is true: before another attempt nobody reads it.
func (x *Exchange) Demote(resp *http.Response, got Received, again bool) Received {
	head := got.Head[:min(len(got.Head), MaxErrorBody)]
	if x.Outer && (got.Cut != nil || len(got.Head) > len(head) || got.Head == nil && !again) {
		return Received{head, io.ErrUnexpectedEOF}
	}
	_ = resp.Body.Close()
	resp.Body = ErrorBody(head, nil)
	return Received{Head: head}
}

// receiveWhole reads the body to its end, up to limit bytes after decompression.
func (x *Exchange) receiveWhole(resp *http.Response, limit int) (Received, error) {
	b, err := wire.ReadBody(resp.Body, resp.ContentLength, limit)
	switch {
	case errors.Is(err, wire.ErrBodyTooLarge):
		return Received{}, x.lose(resp,
			&Refused{Code: taxonomy.Provider + ".response_too_large", Effect: taxonomy.Applied,
				Err: fmt.Errorf("redo: the response has more than the %d bytes of WithMaxResponse", limit)})
	case err != nil:
		return Received{}, x.lose(resp, err)
	}
	return x.held(resp, b), nil
}

// receiveHead reads a body up to limit bytes, so that a response that breaks off before is retried like a lost one.
func (x *Exchange) receiveHead(resp *http.Response, limit int) (Received, error) {
	head, err := wire.ReadHead(resp.Body, resp.ContentLength, limit+1)
	switch {
	case err != nil:
		return Received{}, x.lose(resp, err)
	case len(head) > limit:
		return Received{head, io.ErrUnexpectedEOF}, x.handOver(resp, head)
	}
	return x.held(resp, head), nil
}
