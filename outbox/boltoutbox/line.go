package boltoutbox

import "strings"

// index enters a waiting event. An event without an ordering key has its own entry in due. The others share the
// entry of their line, which tidy writes.
func (f *file) index(seq uint64, s state) {
	if s.Key == "" {
		f.enter(lane(s.Destination, false), place{s.Due, seq})
		return
	}
	line := s.line()
	f.touched.lines[string(line)] = true
	member := append(line, number(seq)...)
	f.set(f.members, member, number(s.Due))
	if s.Leased {
		f.set(f.leased, member, number(s.Due))
	}
}

// unindex undoes index.
func (f *file) unindex(seq uint64, s state) {
	if s.Key == "" {
		f.leave(append(lane(s.Destination, false), place{s.Due, seq}.key()...))
		return
	}
	line := s.line()
	f.touched.lines[string(line)] = true
	member := append(line, number(seq)...)
	f.unset(f.members, member)
	f.unset(f.leased, member)
}

// lane returns the prefix of a destination's entries in due: of the lines that a dead letter holds, or of the others.
func lane(destination string, held bool) []byte {
	b := append(text(destination), 0)
	if held {
		b[len(b)-1] = 1
	}
	return b
}

func (f *file) enter(lane []byte, p place) {
	f.touched.lanes[string(lane)] = true
	f.wakes = f.wakes || p.at <= f.now
	f.set(f.due, append(lane, p.key()...), nil)
}

func (f *file) leave(key []byte) {
	if len(key) < 16 {
		f.fail(corrupt("an entry of a line has %d bytes", len(key)))
		return
	}
	f.touched.lanes[string(key[:len(key)-16])] = true
	f.unset(f.due, key)
}

// touched holds the lines and lanes whose events have changed.
type touched struct{ lines, lanes map[string]bool }

// tidy brings the indexes of lines and lanes in step with the changes. It ends each change.
func (f *file) tidy() error {
	for line := range f.touched.lines {
		f.tidyLine([]byte(line)) // touches lanes
	}
	for lane := range f.touched.lanes {
		f.tidyLane([]byte(lane))
	}
	clear(f.touched.lines)
	clear(f.touched.lanes)
	return f.err
}

// tidyLine enters the first event of a line in due. The line is due when that event is, and when all leases on the line
// have ended.
func (f *file) tidyLine(line []byte) {
	if key := f.get(f.lines, line); key != nil {
		f.leave(key)
	}
	first := f.scan(f.members, line, nil)
	if first.key == nil {
		f.unset(f.lines, line)
		return
	}
	p := place{int64(f.parse(first.value)), f.parse(first.key)}
	for l := f.scan(f.leased, line, nil); l.key != nil; l.next() {
		p.at = max(p.at, int64(f.parse(l.value)))
	}
	destination, _, _ := strings.Cut(string(line), "\x00")
	in := lane(destination, f.holder(line) < p.seq)
	f.enter(in, p)
	f.set(f.lines, line, append(in, p.key()...))
}

// holder returns the seq of a line's first dead letter, or the largest number.
func (f *file) holder(line []byte) uint64 {
	if first := f.scan(f.held, line, nil); first.key != nil {
		return f.parse(first.key)
	}
	return ^uint64(0)
}

// tidyLane records the first instant of a lane.
func (f *file) tidyLane(lane []byte) {
	destination, held, _ := strings.Cut(string(lane), "\x00")
	var is []byte
	if first := f.scan(f.due, lane, nil); first.key != nil && f.get(f.disabled, text(destination)) == nil {
		is = number(f.place(first.key).at)
	}
	was := f.get(f.lanes, lane)
	if string(was) == string(is) {
		return
	}
	front := func(at []byte) []byte { return append(append([]byte(held), at...), text(destination)...) }
	if was != nil {
		f.unset(f.fronts, front(was))
	}
	if is == nil {
		f.unset(f.lanes, lane)
		return
	}
	f.set(f.lanes, lane, is)
	f.set(f.fronts, front(is), nil)
}
