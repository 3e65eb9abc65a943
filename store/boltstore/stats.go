package boltstore

// Stats counts the commits of a Store since it was opened.
type Stats struct {
	Commits     uint64 // commits that reached the disk, including those of transactions and of a new file's creation
	Failures    uint64 // commits that failed
	Groups      uint64 // groups of changes handed to a commit
	Transitions uint64 // changes in these groups, including lazy ones, without expired records that were deleted
	Largest     uint64 // changes in the largest group
}

// Stats returns the counters. It may be called at any time, on a closed Store too.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}
