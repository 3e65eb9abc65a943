package boltoutbox

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/redo-go/redo/outbox"
)

// stream yields the places of due events: those of a lane, or of a line behind an event that the claim takes.
type stream struct {
	*scan
	head        place
	destination string
	line        []byte // nil for a lane
	until       uint64 // seq of the dead letter that ends the line
}

// advance moves to the next place. It returns false at the end of the stream.
func (s *stream) advance() bool {
	s.next()
	return s.due()
}

func (s *stream) due() bool {
	if s.key == nil {
		return false
	}
	if s.line == nil {
		s.head = s.f.place(s.key)
	} else {
		s.head = place{int64(s.f.parse(s.value)), s.f.parse(s.key)}
	}
	return s.head.at <= s.f.now && (s.line == nil || s.head.seq < s.until)
}

// pick is an event that a claim takes.
type pick struct {
	seq   uint64
	state state
	event outbox.Event
}

// picks returns the events that the claim takes, the oldest first. It takes a second event of a line after the
// first ones of all lines, and so on. It skips unreadable events and the events behind them in their lines.
func (f *file) picks(c outbox.Claim) []pick {
	var found []pick
	var behind []*stream
	room := map[string]int{}
	for round := f.streams(c); len(found) < c.Max; {
		if len(round) == 0 {
			if round, behind = behind, nil; len(round) == 0 {
				break
			}
		}
		s := round[0]
		round = round[1:]
		left, seen := room[s.destination]
		if !seen {
			left = c.Limit(s.destination)
		}
		if left == 0 {
			continue
		}
		p, err := f.pick(s.head.seq)
		if err == nil {
			found = append(found, p)
			room[s.destination] = left - 1
			if line := s.follow(p, c.HoldKeys); line != nil {
				behind = append(behind, line)
			}
		}
		if s.line == nil && s.advance() {
			round = insert(round, s)
		}
	}
	return found
}

// streams returns the lanes whose events a claim may take. The lane with the oldest event comes first.
func (f *file) streams(c outbox.Claim) []*stream {
	var found []*stream
	for _, held := range [][]byte{{0}, {1}} {
		if c.HoldKeys && held[0] == 1 {
			break
		}
		n := 0
		for s := f.scan(f.fronts, held, nil); s.key != nil && n < c.Max && int64(f.parse(s.key)) <= f.now; s.next() {
			destination := strings.TrimSuffix(string(s.key[min(8, len(s.key)):]), "\x00")
			if c.Limit(destination) == 0 {
				continue
			}
			l := &stream{scan: f.scan(f.due, lane(destination, held[0] == 1), nil), destination: destination}
			if l.due() {
				found = insert(found, l)
				n++
			}
		}
	}
	return found
}

// insert keeps the streams in the order of their places.
func insert(streams []*stream, s *stream) []*stream {
	i, _ := slices.BinarySearchFunc(streams, s, func(a, b *stream) int {
		return cmp.Or(cmp.Compare(a.head.at, b.head.at), cmp.Compare(a.head.seq, b.head.seq))
	})
	return slices.Insert(streams, i, s)
}

// follow returns the line behind the event that s has yielded, or nil if nothing of it is due.
func (s *stream) follow(p pick, hold bool) *stream {
	if p.state.Key == "" {
		return nil
	}
	if s.line != nil {
		if s.advance() {
			return s
		}
		return nil
	}
	line := &stream{destination: s.destination, line: p.state.line(), until: ^uint64(0)}
	if hold {
		line.until = s.f.holder(line.line)
	}
	line.scan = s.f.scan(s.f.members, line.line, number(p.seq))
	if line.advance() {
		return line
	}
	return nil
}

func (f *file) pick(seq uint64) (p pick, err error) {
	p.seq = seq
	if err = decode(f.get(f.waiting, number(seq)), &p.state); err == nil {
		p.event, err = f.event(seq, p.state)
	}
	return p, err
}

func (f *file) claim(c outbox.Claim) []outbox.Delivery {
	var ds []outbox.Delivery
	for _, p := range f.picks(c) {
		s := p.state
		f.unindex(p.seq, s)
		if s.Attempts == 0 {
			s.First = f.now
		}
		s.Leased, s.Attempts, s.Fence, s.Due = true, s.Attempts+1, f.next(f.root), f.now+int64(c.Lease)
		f.index(p.seq, s)
		f.set(f.waiting, number(p.seq), f.encode(s))
		ds = append(ds, outbox.Delivery{
			Event: p.event, Lease: outbox.Lease{Seq: p.seq, Fence: s.Fence}, Attempt: s.Attempts,
			Age: time.Duration(f.now - s.Enqueued), Tried: time.Duration(f.now - s.First),
		})
	}
	return ds
}
