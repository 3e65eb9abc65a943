package boltstore

// Stats counts what a Store did since it was opened. Its zero value is that of a Store that did nothing.
type Stats struct {
	Commits     uint64 // commits that reached the disk, those of transactions and of a new file's creation included
	Failures    uint64 // commits that failed
	Groups      uint64 // groups of changes handed to a commit
	Transitions uint64 // changes in these groups, lazy ones and each record of a Purge included
	Largest     uint64 // changes in the largest group
}

// Stats returns the counters. It may be called at any time, on a closed Store too.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}
