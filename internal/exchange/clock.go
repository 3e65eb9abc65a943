package exchange

import (
	"context"
	"errors"
	"io"
	"time"
)

// ErrTimeout means that the exchange took longer than its time limit. It is a net.Error that timed out.
var ErrTimeout error = timeoutError{}

type timeoutError struct{}

func (timeoutError) Error() string   { return "redo: attempt timed out" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

// A clock bounds one exchange: it ends the exchange's context with ErrTimeout. Its zero value bounds nothing.
type clock struct {
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

// startClock returns a context that ends after d. It has no deadline, since the clock can be stopped while the
// response's body is still being read.
func startClock(parent context.Context, d time.Duration) (context.Context, clock) {
	ctx, cancel := context.WithCancelCause(parent)
	return ctx, clock{cancel, time.AfterFunc(d, func() { cancel(ErrTimeout) })}
}

// stop ends the time limit and keeps the context. It returns false if the time limit has already passed.
func (c clock) stop() bool { return c.timer == nil || c.timer.Stop() }

// release ends the context. It is called when the response's body is closed or read to its end.
func (c clock) release() {
	if c.cancel != nil {
		c.timer.Stop()
		c.cancel(nil)
	}
}

// over returns body, or one that releases the clock at its end.
func (c clock) over(body io.ReadCloser) io.ReadCloser {
	if c.cancel == nil {
		return body
	}
	return &timedBody{body, c}
}

// A timedBody is a response's body that releases its exchange's clock.
type timedBody struct {
	io.ReadCloser
	clock clock
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.clock.release()
	}
	return n, err
}

func (b *timedBody) Close() error {
	err := b.ReadCloser.Close()
	b.clock.release()
	return err
}

// A connectionBody is the body of a 101 response: the connection itself.
type connectionBody struct {
	io.ReadCloser
	io.Writer
}

// CloseWrite closes the connection's sending half, if it has one.
func (b connectionBody) CloseWrite() error {
	if c, ok := b.Writer.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return errors.ErrUnsupported
}
