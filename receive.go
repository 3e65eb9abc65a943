package redo

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"

	"github.com/redo-go/redo/internal/wire"
)

// receive reads what the client has to read of an answer before it is judged: the head of an error's body, or
// the result of an operation whose outcome is stored. It returns the head of an error's body, and the error
// that reading brought. The attempt's clock runs until it returns, and then stops: a body that is handed to the
// caller is not cut off.
func (k *call) receive(a *attempt, resp *http.Response) ([]byte, error) {
	switch {
	case resp.StatusCode >= 400:
		head, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
		if err == nil && len(head) == maxErrorBody && k.mode == modeTransport && a.stopClock() {
			resp.Body = newBody(a, resp.Body, head) // net/http's caller gets all of it
			return head, nil
		}
		_ = resp.Body.Close()
		err = a.explain(err)
		a.end()
		resp.Body = io.NopCloser(bytes.NewReader(head))
		return head, err
	case k.captures(resp):
		return nil, k.capture(a, resp)
	case resp.Body == http.NoBody:
		a.end()
		return nil, nil
	case !a.stopClock():
		_ = resp.Body.Close()
		a.end()
		resp.Body = http.NoBody
		return nil, ErrAttemptTimeout
	}
	b := newBody(a, resp.Body, nil)
	if w, ok := b.ReadCloser.(io.Writer); resp.StatusCode == http.StatusSwitchingProtocols && ok {
		resp.Body = writableBody{b, w} // the body is the connection
		return nil, nil
	}
	resp.Body = b
	return nil, nil
}

// captures reports whether the answer's body is read as part of the attempt. Event streams are not: they may
// never end.
func (k *call) captures(resp *http.Response) bool {
	if !k.op.stored && k.mode != modeCall {
		return false
	}
	mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return mediaType != "text/event-stream"
}

// capture reads the result's body up to the cap, so that a truncated answer is retried like a lost one, and
// keeps it for the store if it is all there.
func (k *call) capture(a *attempt, resp *http.Response) error {
	limit := k.client.maxBody
	head := make([]byte, 0, int(min(max(resp.ContentLength, 0)+1, int64(limit)+1, 16<<10)))
	buf := bytes.NewBuffer(head)
	_, err := io.CopyN(buf, resp.Body, int64(limit)+1)
	switch {
	case err == nil: // longer than the cap: the caller reads on
		if !a.stopClock() {
			_ = resp.Body.Close()
			a.end()
			resp.Body = http.NoBody
			return ErrAttemptTimeout
		}
		k.keep(resp, nil, true)
		resp.Body = newBody(a, resp.Body, buf.Bytes())
		return nil
	case errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		_ = resp.Body.Close()
		a.end()
		k.keep(resp, buf.Bytes(), false)
		resp.Body = io.NopCloser(bytes.NewReader(buf.Bytes()))
		return nil
	}
	_ = resp.Body.Close()
	err = a.explain(err)
	a.end()
	resp.Body = http.NoBody
	return err
}

// keep notes the answer for the store, where there is one to write it to.
func (k *call) keep(resp *http.Response, body []byte, tooLong bool) {
	if k.claimed == nil {
		return
	}
	k.claimed.answer = &wire.Response{Status: resp.StatusCode, Header: wire.EndToEnd(resp.Header), Body: body}
	k.claimed.tooLong = tooLong
}

// body is a response's body that releases its attempt when it is closed or read to its end.
type body struct {
	io.ReadCloser
	attempt *attempt
}

// newBody hands the rest of a body to the caller, behind what was read of it already.
func newBody(a *attempt, rest io.ReadCloser, head []byte) *body {
	if len(head) > 0 {
		rest = rejoin(head, rest)
	}
	a.body = body{rest, a}
	return &a.body
}

// rejoin puts what was read of a body back before the rest.
func rejoin(head []byte, rest io.ReadCloser) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), rest), rest}
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.attempt.end()
	}
	return n, err
}

// WriteTo lets io.Copy use what the body underneath can do.
func (b *body) WriteTo(w io.Writer) (int64, error) {
	n, err := io.Copy(w, b.ReadCloser)
	b.attempt.end()
	return n, err
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.attempt.end()
	return err
}

type writableBody struct {
	*body
	io.Writer
}
