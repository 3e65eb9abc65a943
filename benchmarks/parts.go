package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"io"
	"net/http"
	"time"

	"github.com/redo-go/redo/internal/wire"
	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/memstore"
)

// parts does the work of a first run in a row, with the standard library and memstore. It refuses, renews, replays and
// observes nothing, so its time is a floor for a middleware that is built from these parts.
type parts struct {
	store *memstore.Store
	next  http.Handler
}

func inParts(next http.Handler) http.Handler { return &parts{memstore.New(), next} }

func (p *parts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := p.serve(w, r); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func (p *parts) serve(w http.ResponseWriter, r *http.Request) error {
	key, err := wire.ParseKey(r.Header["Idempotency-Key"])
	if err != nil {
		return err
	}
	payload, err := wire.ReadBody(r.Body, r.ContentLength, 1<<20)
	if err != nil {
		return err
	}
	var nonce [12]byte
	_, _ = rand.Read(nonce[:]) // it never fails

	// A lost lease and a slow store end the context, and so does the time limit of the handler.
	owned, lose := context.WithCancelCause(context.WithoutCancel(r.Context()))
	defer lose(nil)
	defer time.AfterFunc(5*time.Second, func() { lose(store.ErrLost) }).Stop()
	g, err := p.store.Reserve(owned, store.Claim{
		ID:          store.ID{Scope: "16:" + r.Pattern, Key: key},
		Fingerprint: store.Raw(r.Method, r.URL.EscapedPath(), r.URL.RawQuery, payload),
		Lease:       30 * time.Second,
		Retention:   24 * time.Hour,
		Owner:       base64.RawURLEncoding.EncodeToString(nonce[:]),
	})
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(owned, time.Minute)
	defer cancel()

	in := r.WithContext(limited)
	in.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(payload)), nil }
	in.Body, _ = in.GetBody()
	out := held{header: http.Header{}}
	p.next.ServeHTTP(&out, in)
	result := wire.AppendResponse(nil, wire.Response{
		Status: out.status, Header: wire.EndToEnd(out.header), Body: out.body,
	})
	if err := p.store.Complete(owned, g.Lease, store.Outcome{Result: result}); err != nil {
		return err
	}
	for name, values := range out.header {
		w.Header()[name] = values
	}
	w.Header()[wire.HeaderStatus] = statusStored
	w.WriteHeader(out.status)
	_, err = w.Write(out.body)
	return err
}

var statusStored = []string{wire.StatusStored}

// A held response is one that is not sent yet.
type held struct {
	header http.Header
	status int
	body   []byte
}

func (h *held) Header() http.Header    { return h.header }
func (h *held) WriteHeader(status int) { h.status = status }

func (h *held) Write(p []byte) (int, error) {
	h.body = append(h.body, p...)
	return len(p), nil
}
