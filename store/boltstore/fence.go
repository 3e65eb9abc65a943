package boltstore

// fenceBlock is how many fences a commit reserves beyond the last one that was given out.
//
// A fence of Reserve is told when it is on disk, in the commit of its record. One of Begin is told at once, and a rollback
// commits nothing; given out again after the next Open, it would let a commit whose answer was lost be confirmed by
// somebody else's record. So no fence is told that the file hasn't reserved, and Open goes on after all that it has. Every
// commit writes the state anyway: what this costs is one commit before the first Begin after Open, if nothing else has
// changed a record by then, and one for so many Begins in a row that are rolled back.
const fenceBlock = 1 << 10

// state is what the next commit writes beside the records. The mutex is held.
func (s *Store) state() state { return state{fence: s.fence + fenceBlock, epoch: s.epoch} }

// reserved notes that the state is on disk. A commit whose outcome is unknown has reserved nothing.
func (s *Store) reserved(st state) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fences = max(s.fences, st.fence)
}
