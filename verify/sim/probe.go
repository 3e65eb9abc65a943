package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
)

// probe repeats requests that succeeded, without a client of redo. The same request must be replayed, and another
// payload under the key must be refused.
func (w *world) probe(ctx context.Context) {
	p := w.newProcess("probe", "")
	for i, op := range w.oracle.all() {
		key := op.keys[serviceHost]
		if !op.acked || op.lost || op.host != serviceHost || i >= 8 {
			continue
		}
		status, header, body := p.post(ctx, op, key, op.payload)
		if status == http.StatusCreated && !bytes.Equal(body, op.first) {
			w.violate(sameResponse, "a repetition of %s gets %q, and before %q", op.name, body, op.first)
		}
		if status != http.StatusCreated || header.Get("Idempotent-Replayed") == "" {
			w.violate(sameResponse, "a repetition of %s gets %d %q, which is no replay", op.name, status, body)
		}
		other, _ := json.Marshal(message{op.name, op.principal, -1}) // strings and a number always encode
		if status, _, _ = p.post(ctx, op, key, other); status < 400 {
			w.violate(mismatch, "another payload under the key of %s gets %d", op.name, status)
		}
	}
}

// post sends a request under a key to the service.
func (p *process) post(ctx context.Context, op *operation, key string, body []byte) (int, http.Header, []byte) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+serviceHost+"/orders", bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set(principalHeader, op.principal)
	r, err := (wire{p}).exchange(ctx, req, body, "probe of "+op.name)
	if err != nil {
		return 0, nil, nil
	}
	b, _ := io.ReadAll(bytes.NewReader(r.body)) // of a buffer
	return r.status, r.header, b
}
