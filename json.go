package redo

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/taxonomy"
)

// Call sends in as JSON and decodes the response from JSON. It is the short form of [Client.Do] for JSON APIs. Only a
// 2xx is a success. A nil in sends no body. For a response without a body, such as 204, Call returns the zero T.
//
// The body is read and decoded within the attempt, up to [WithMaxResponse] bytes: a response that breaks off is
// retried like a lost one. A body that is not JSON, such as a captive portal's page, is an [*Error] with an unknown
// effect. JSON that does not fit T is an [*Error] whose effect is Applied.
//
// Call sends the bytes of json.Marshal. They are the same for equal values, since json.Marshal sorts map keys.
func Call[T any](ctx context.Context, c *Client, method, url string, in any) (T, error) {
	var out T
	refuse := func(err error) (T, error) {
		in := intentOf(ctx)
		e := &Error{Code: taxonomy.InvalidRequest, Operation: in.name, Err: err}
		if c == nil {
			return out, e
		}
		k := &call{client: c, ctx: cmp.Or(ctx, context.Background()), op: c.unplanned(in, method)}
		e.Effect = k.unsent()
		return out, c.refusal(ctx, e)
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
		return refuse(fmt.Errorf("redo: Call: %w", wire.WithoutURL(err)))
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
	if err := wire.DecodeJSON(resp.Body, &out); err != nil {
		err = fmt.Errorf("redo: Call: decoding the response: %w", err)
		return *new(T), loopOfResponse(resp).failed(taxonomy.Provider+".malformed", Applied, resp, err)
	}
	return out, nil
}
