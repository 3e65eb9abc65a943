package boltstore

// fenceBlock is the number of fences that a commit reserves beyond the last one given out.
//
// Reserve returns a fence when it is on disk, in the commit of its record. Begin returns one immediately, and a
// rollback commits nothing. If the next Open gave that fence out again, another owner's record could confirm a commit
// whose response was lost. So Begin returns only fences that the file has reserved, and Open continues after all of
// them. Every commit writes the state anyway. The cost is one commit for each fenceBlock consecutive Begins that are
// rolled back, and one before the first Begin after Open, unless another change came before it.
const fenceBlock = 1 << 10
