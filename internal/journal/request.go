package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/store"
)

// Version is the version of both envelopes.
const Version = 1

// ErrVersion reports a record that this version of redo can't read.
var ErrVersion = errors.New("redo: the stored operation has another version")

// A Request is the meta of an operation's record: its key and the parts of the request that may be stored. It is JSON,
// so that an operator can read it.
type Request struct {
	Version int         `json:"v"`
	Key     string      `json:"key"`
	Method  string      `json:"method,omitempty"`
	URL     string      `json:"url,omitempty"`
	Host    string      `json:"host,omitempty"`
	Header  http.Header `json:"header,omitempty"`
	Body    []byte      `json:"body"` // null: the request had none
	// JSON is true if a success of the request has a JSON body, or none.
	JSON bool `json:"json,omitempty"`
	// Whole is true if URL and body are complete.
	Whole bool `json:"whole"`
	// Dropped lists the headers of the request that were not stored and may change its meaning.
	Dropped []string `json:"dropped,omitempty"`
	// Unapplied is true while every attempt so far is known not to have been applied.
	Unapplied bool `json:"unapplied,omitempty"`
	// Rest is the settlement of an operation whose final response leaves the effect unknown. It is never sent again.
	Rest []byte `json:"rest,omitempty"`
}

// Encode returns the meta. A request that is too long for the store is reduced to its key.
func (r Request) Encode() []byte {
	b, _ := json.Marshal(r) // text and bytes always marshal
	if len(b) > store.MaxMeta {
		b, _ = json.Marshal(Request{Version: r.Version, Key: r.Key, Unapplied: r.Unapplied, Rest: r.Rest})
	}
	return b
}

// DecodeRequest reads the result of [Request.Encode].
func DecodeRequest(meta []byte) (Request, error) {
	var r Request
	if err := json.Unmarshal(meta, &r); err != nil {
		return r, fmt.Errorf("redo: the stored operation can't be read: %w", err)
	}
	if r.Version != Version {
		return r, fmt.Errorf("%w: %d, this is %d", ErrVersion, r.Version, Version)
	}
	return r, wire.CheckKey(r.Key)
}

// ErrNoCredentials reports a request that was first sent with credentials, which no store holds.
var ErrNoCredentials = errors.New("is never stored")

// Resumable returns nil if the stored request can be sent as it was, and otherwise an error. The parameter credentials
// is true if the client adds credentials to each attempt.
func (r Request) Resumable(credentials bool) error {
	if !r.Whole {
		return errors.New("the store does not hold the whole request")
	}
	for _, name := range r.Dropped {
		switch {
		case !wire.CredentialHeader(name):
			return fmt.Errorf("the store does not hold the header %s: name it in Profile.StoredHeaders", name)
		case !credentials:
			return fmt.Errorf("the header %s %w: add it with WithCredentials", name, ErrNoCredentials)
		}
	}
	return nil
}

// HTTP returns the stored request for another attempt.
func (r Request) HTTP(ctx context.Context) (*http.Request, error) {
	var body io.Reader
	if r.Body != nil {
		body = bytes.NewReader(r.Body)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, body)
	if err != nil {
		return nil, wire.WithoutURL(err)
	}
	if r.Host != "" {
		req.Host = r.Host
	}
	if r.Header != nil {
		req.Header = r.Header.Clone()
	}
	return req, nil
}
