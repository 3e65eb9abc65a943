package oneoperation

import (
	"fmt"
	"sync"
	"time"

	"github.com/redo-go/redo/taxonomy"
)

const (
	retention = 160 * time.Second // of a key. The client's margin is an eighth: 20 s
	workTime  = 2 * time.Second   // of a handler, at most
)

// A server has at most one effect for a key that it remembers. Its ledger and its wire show what no client sees.
type server struct {
	life     *life
	unmarked bool          // first responses have no Idempotency-Status. Replays are always marked
	keyless  bool          // a planted defect: each request has an effect
	memory   time.Duration // how long a key is remembered. A planted defect makes it shorter than the retention

	mu      sync.Mutex
	records map[string]*record
	wire    map[*message]bool // requests that have not had their outcome
	late    int               // claims that are on their way to the store
	effects []string
	made    []string             // keys that clients made
	sent    map[string]time.Time // when each key was sent first
	newest  *message             // the request that was sent last
	arrived time.Time            // when that was sent
	bans    map[string]ban       // keys that must not have an effect any more
}

// A ban is the reason why a key must not have an effect any more. A Resume that comes too late may leave its key to the
// next call. So after a person's decision the ban is for a Resume alone.
type ban struct {
	why     string
	resumes bool
}

// A record is what the server remembers of a key.
type record struct {
	expires time.Time
	final   *reply // nil while a handler works
}

// A reply is a response on its way to the client.
type reply struct {
	status    int
	code      taxonomy.Code // Error-Code
	after     int           // Retry-After, in seconds
	stored    bool          // marked as the outcome for the key
	replayed  bool          // marked as its repetition
	unserved  bool          // it comes from in front of the record
	body      string
	truncated bool
}

// A message is a request on the wire. It goes on when its client has gone.
type message struct {
	key    string
	sender *process
	resume bool        // it comes from Resume or ResumeEvery
	answer chan *reply // nil: the connection is reset
}

// put puts a request on the wire, and checks that the client may send it.
func (s *server) put(m *message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, again := s.sent[m.key]
	if !again {
		first = time.Now()
		s.sent[m.key] = first
	}
	if age := time.Since(first); age >= retention {
		s.life.Violate("%s sends the key %s %v after its first request", m.sender.Name, m.key, age)
	}
	s.wire[m] = true
	s.newest, s.arrived = m, time.Now()
	if s.bans[m.key].resumes && !m.resume {
		delete(s.bans, m.key) // the call may have found the key that a Resume left behind
	}
	for key := range s.sent {
		if key != m.key && s.alive(m.key) && s.alive(key) { // a key whose refusal is remembered has no effect any more
			s.life.Violate("%s sends the key %s, and %s has had its effect or can still have it", m.sender.Name, m.key, key)
		}
	}
}

// alive reports whether a request under the key has had its effect, or is on the wire and can still have it.
func (s *server) alive(key string) bool {
	rec := s.find(key)
	if rec != nil && rec.final != nil && !s.keyless {
		return rec.final.success()
	}
	for m := range s.wire {
		if m.key == key {
			return true
		}
	}
	return false
}

// anyAlive reports whether a request on the wire can still have an effect, or one has happened.
func (s *server) anyAlive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.sent {
		if s.alive(key) {
			return true
		}
	}
	return len(s.effects) > 0
}

func (s *server) find(key string) *record {
	rec := s.records[key]
	if rec == nil || time.Now().After(rec.expires) {
		return nil
	}
	return rec
}

// serve handles a request, which takes time if a handler works.
func (s *server) serve(m *message) *reply {
	l := s.life
	if l.Chance(8) {
		return &reply{status: 503, after: l.Draw(3), unserved: true}
	}
	if l.Chance(5) {
		return &reply{status: 429, after: 1 + l.Draw(5), unserved: true}
	}
	s.mu.Lock()
	rec := s.find(m.key)
	if rec != nil && !s.keyless {
		defer s.mu.Unlock()
		if rec.final == nil {
			return &reply{status: 409, code: taxonomy.InFlight, after: 1}
		}
		again := *rec.final
		again.stored, again.replayed = false, true
		return &again
	}
	rec = &record{expires: time.Now().Add(s.memory)}
	s.records[m.key] = rec
	s.mu.Unlock()
	l.Log("the server works on %s", m.key)
	time.Sleep(l.Span(workTime))
	return s.finish(m, rec)
}

// finish ends a handler, with or without an effect.
func (s *server) finish(m *message, rec *record) *reply {
	l := s.life
	n := l.Draw(100) - l.refusing
	s.mu.Lock()
	defer s.mu.Unlock()
	rec.final = &reply{stored: !s.unmarked, status: 201}
	switch {
	case n < 0:
		rec.final.status, rec.final.body = 422, "the card is declined"
	case l.Calm.Load():
		rec.final.body = s.effect(m)
	case n < 5:
		rec.final.status, rec.final.body = 500, "a failure without an effect"
	case n < 20:
		delete(s.records, m.key) // the key is released, and a repetition runs the handler again
		return &reply{status: 503}
	case n < 25:
		s.effect(m)
		rec.final.status, rec.final.body = 500, "a failure after the effect"
	default:
		rec.final.body = s.effect(m)
	}
	l.Log("the server remembers %d %q for %s", rec.final.status, rec.final.body, m.key)
	first := *rec.final
	return &first
}

// effect makes the effect, and checks that none must be made.
func (s *server) effect(m *message) string {
	id := fmt.Sprintf("effect-%d-%s", len(s.effects), m.key[max(0, len(m.key)-8):])
	s.effects = append(s.effects, id)
	s.life.Log("EFFECT %s", id)
	if b := s.bans[m.key]; b.why != "" && (m.resume || !b.resumes) {
		s.life.Violate("%s has an effect after %s", m.key, b.why)
	}
	if len(s.effects) > 1 {
		s.life.Violate("the operation has the effects %v", s.effects)
	}
	return id
}

// success reports whether the reply stands for an effect.
func (r *reply) success() bool { return r.status == 201 || r.body == "a failure after the effect" }

// close forbids an effect under the keys that were sent.
func (s *server) close(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.sent {
		s.bans[key] = ban{why: why}
	}
}

// closeToResumes forbids a Resume an effect under all keys that were made.
func (s *server) closeToResumes(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range s.made {
		if s.bans[key].why == "" {
			s.bans[key] = ban{why: why, resumes: true}
		}
	}
}

// overtakes reports whether the last request is another process's, and was sent less than d ago.
func (s *server) overtakes(p *process, d time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest != nil && s.newest.sender != p && time.Since(s.arrived) < d
}

// delay counts claims that are on their way to the store.
func (s *server) delay(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late += n
}

// truth returns the effect, "" for none, and whether nothing is under way.
func (s *server) truth() (effect string, quiet bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.effects) > 0 {
		effect = s.effects[0]
	}
	return effect, len(s.wire)+s.late == 0
}
