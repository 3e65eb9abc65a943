package servertest

import (
	"errors"
	"fmt"
	"sync"
)

// step is one fault of one key's script, and its result. It is guarded by its scripts' mutex.
type step struct {
	scripts *scripts
	fault   Fault
	where   string // names key and step in messages
	request int    // the request that took the step; zero if none did
	playing int    // the number of requests that are at the step
	fired   bool
	err     error // the reason why the fault did not occur
	spoiled bool  // the handler panicked
}

// spoil records that the handler panicked: the step has not fired, also if its fault occurred before.
func (s *step) spoil() {
	s.scripts.mu.Lock()
	defer s.scripts.mu.Unlock()
	s.spoiled, s.fired, s.err = true, false, errors.New("servertest: the handler panicked")
}

// play records that a request has reached the step or, with -1, that it has left.
func (s *step) play(n int) {
	s.scripts.mu.Lock()
	defer s.scripts.mu.Unlock()
	s.playing += n
}

// mark records whether the fault occurred. Once it occurred, later errors do not change that.
func (s *step) mark(err error) {
	s.scripts.mu.Lock()
	defer s.scripts.mu.Unlock()
	if err == nil {
		s.fired = !s.spoiled
	} else if s.err == nil {
		s.err = err
	}
}

// keyScript is the sequence of steps for one key.
type keyScript struct {
	steps []*step
	taken int
}

// scripts gives each request its step.
type scripts struct {
	mu       sync.Mutex
	byKey    map[string]*keyScript
	declared []string  // keys, in the order in which they were scripted or first seen
	next     [][]Fault // not yet given to a key
	each     []Fault
	seen     bool // a key took the script for each key
	nexts    int  // the number of scripts in next that were given to a key
}

func newScripts() *scripts { return &scripts{byKey: make(map[string]*keyScript)} }

// add appends steps to a key's script.
func (s *scripts) add(key, origin string, faults []Fault) *keyScript {
	k := s.byKey[key]
	if k == nil {
		k = &keyScript{}
		s.byKey[key] = k
		s.declared = append(s.declared, key)
	}
	for _, f := range faults {
		k.steps = append(k.steps, &step{
			scripts: s, fault: f,
			where: fmt.Sprintf("key %q, %sstep %d, %v", key, origin, len(k.steps)+1, f),
		})
	}
	return k
}

// take returns the step for a request with the key. It returns nil if the key has no script or the script is at
// its end.
func (s *scripts) take(key string, request int) *step {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.byKey[key]
	if k == nil {
		k = s.adopt(key)
	}
	if k.taken == len(k.steps) {
		return nil
	}
	st := k.steps[k.taken]
	k.taken++
	st.request = request
	return st
}

// undecided reports whether a request is at a step whose fault may still occur.
func (s *scripts) undecided() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.byKey {
		for _, st := range k.steps {
			if st.playing > 0 && !st.fired && st.err == nil {
				return true
			}
		}
	}
	return false
}

// adopt gives the next script to a key that has none. That script may be empty.
func (s *scripts) adopt(key string) *keyScript {
	switch {
	case len(s.next) > 0:
		faults := s.next[0]
		s.next = s.next[1:]
		s.nexts++
		return s.add(key, fmt.Sprintf("ScriptNext %d, ", s.nexts), faults)
	case s.each != nil:
		s.seen = true
		return s.add(key, "ScriptEach, ", s.each)
	default:
		return s.add(key, "", nil)
	}
}

// unfired describes every step whose fault did not occur.
func (s *scripts) unfired() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var missing []string
	for _, key := range s.declared {
		for _, st := range s.byKey[key].steps {
			switch {
			case st.fired:
			case st.request == 0:
				missing = append(missing, st.where+": no request came for it")
			case st.err != nil:
				missing = append(missing, fmt.Sprintf("%s: taken by request %d, but it did not reach the wire: %v",
					st.where, st.request, st.err))
			default:
				missing = append(missing,
					fmt.Sprintf("%s: taken by request %d, but it never fired", st.where, st.request))
			}
		}
	}
	for i := range s.next {
		missing = append(missing, fmt.Sprintf("ScriptNext %d: no key came for it", s.nexts+i+1))
	}
	if s.each != nil && !s.seen {
		missing = append(missing, "ScriptEach: no key came for it")
	}
	return missing
}

// check returns the first fault's invalid argument, and whether any fault needs or watches the store.
func (s *scripts) check() (needsStore, seesStore bool, err error) {
	all := append([][]Fault{s.each}, s.next...)
	for _, key := range s.declared {
		for _, st := range s.byKey[key].steps {
			all = append(all, []Fault{st.fault})
		}
	}
	for _, faults := range all {
		for _, f := range faults {
			switch {
			case f.play == nil:
				return false, false, fmt.Errorf("servertest: a script contains the zero Fault; take one " +
					"of the constructors")
			case f.bad != nil:
				return false, false, f.bad
			}
			needsStore = needsStore || f.needsStore
			seesStore = seesStore || f.needsStore || f.seesStore
		}
	}
	return needsStore, seesStore, nil
}
