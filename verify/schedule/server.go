package schedule

import (
	"io"
	"net/http"
	"strings"
)

// A keyRecord is the server's record of one Idempotency-Key.
type keyRecord struct {
	effects int    // at most 1 unless the server ignores keys
	fate    fate   // drawn when the first request with the key arrives
	working bool   // the first request has arrived, and its outcome is not yet stored
	stored  *reply // the outcome, nil before it is stored
}

// A fate is the outcome that a server has for a key.
type fate struct {
	status int
	effect bool
}

// fates are drawn by their weights, out of 20.
var fates = []struct {
	weight int
	fate
}{
	{14, fate{http.StatusCreated, true}},
	{4, fate{http.StatusUnprocessableEntity, false}},
	{1, fate{http.StatusInternalServerError, true}},
	{1, fate{http.StatusInternalServerError, false}},
}

// A server excludes by key. It stores its first outcome for a key, and replays it from then on.
type server struct {
	records map[string]*keyRecord
	// unmarked leaves the first response without Idempotency-Status. Replays are always marked.
	unmarked bool
	// keyless is a mutant: the server ignores keys, and each request has an effect.
	keyless bool
}

func (s *server) record(key string) *keyRecord {
	rec := s.records[key]
	if rec == nil {
		rec = &keyRecord{}
		s.records[key] = rec
	}
	return rec
}

func (s *server) effects() (n int) {
	for _, rec := range s.records {
		n += rec.effects
	}
	return n
}

// store makes the outcome of the key's first request durable.
func (s *server) store(rec *keyRecord) *reply {
	rec.working = false
	if rec.fate.effect {
		rec.effects++
	}
	rec.stored = &reply{status: rec.fate.status, replayed: true}
	return &reply{status: rec.fate.status, stored: !s.unmarked}
}

// A reply is a response on its way to the client.
type reply struct {
	status   int
	stored   bool   // marked as the server's outcome for the key
	replayed bool   // marked as a repetition of it
	code     string // the Error-Code header, if not empty
}

// response builds the response as a transport returns it.
func (r *reply) response(req *http.Request) *http.Response {
	h := http.Header{"Content-Type": {"application/json"}}
	body := `{"id":1}`
	if r.status >= http.StatusBadRequest {
		body = "{}"
	}
	if r.stored {
		h.Set("Idempotency-Status", "stored")
	}
	if r.replayed {
		h.Set("Idempotent-Replayed", "true")
	}
	if r.code != "" {
		h.Set("Error-Code", r.code)
	}
	return &http.Response{
		Status: http.StatusText(r.status), StatusCode: r.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: req,
	}
}
