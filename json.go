package redo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/redo-go/redo/taxonomy"
)

// Call sends in as JSON and returns the answer decoded from JSON: the short form of [Client.Do] for APIs that
// speak JSON both ways. A nil in sends no body. An answer without a body, such as 204, is the zero T. An answer
// that is cut off is retried like a lost one; one that does not decode is an [*Error] whose effect is Applied.
//
// The bytes that are sent are json.Marshal's, which are the same for equal values: maps are sorted.
func Call[T any](ctx context.Context, c *Client, method, url string, in any) (T, error) {
	var out T
	refuse := func(err error) (T, error) {
		return out, &Error{Code: taxonomy.InvalidRequest, Operation: intentOf(ctx).name, Effect: NotApplied, Err: err}
	}
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return refuse(fmt.Errorf("redo: Call: encoding the request: %w", err))
		}
		body = bytes.NewReader(b)
	}
	if ctx == nil || c == nil {
		return refuse(errors.New("redo: Call: the context or the client is nil"))
	}
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return refuse(fmt.Errorf("redo: Call: %w", withoutURL(err)))
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json")
	resp, e := c.perform(req, modeCall)
	if e != nil {
		return out, e
	}
	defer func() { _ = resp.Body.Close() }()
	if err := decode(resp.Body, &out); err != nil {
		var zero T
		e := &Error{
			Code: taxonomy.Provider + ".malformed", StatusCode: resp.StatusCode, Operation: intentOf(ctx).name, Key: KeyOf(resp),
			Effect: Applied, Response: resp, Err: fmt.Errorf("redo: Call: decoding the answer: %w", err),
		}
		if k := callOf(resp); k != nil && k.history != nil {
			e.Attempts = k.attempts
		}
		return zero, e
	}
	return out, nil
}

// decode reads one JSON value; an empty body leaves out as it is.
func decode(r io.Reader, out any) error {
	d := json.NewDecoder(r)
	if err := d.Decode(out); err != nil {
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the JSON value")
	}
	return nil
}
