// Package disk proves that boltstore keeps its promises on disks that lose power or fail. SIGKILL keeps the page
// cache, so a killed process can't show a lost sync. This package records the system calls of a process with strace:
// each write, truncation and sync of the file, and each acknowledgement. From the recording it rebuilds the states
// that the disk may have after a power cut, opens each with boltstore, and compares it with the acknowledgements.
//
//	go test ./verify/disk                                                  the short form, some seconds
//	go test ./verify/disk -run 'TestPowerCut$' -states 100000 -v -timeout 0  the long form
//	go test ./verify/disk -run 'TestPowerCut$' -seed 7 -v                    the workloads from that seed on
//
// # The model of a disk
//
// A sync that succeeds makes all earlier writes and the length of the file durable. Until then each sector of 512 bytes
// has its durable content or that of any later write, independently of the others. So writes are lost, reordered and
// torn. The length of the file is the durable one or any later one. The name of a new file may be lost until its
// directory is synced.
//
// After a sync that fails, no later sync makes the same writes durable. Linux marks the pages as clean then, and the
// next sync succeeds. A later write of the same sector is a new write.
//
// A process that is killed syncs nothing. Its successor reads the unsynced writes from the page cache.
package disk
