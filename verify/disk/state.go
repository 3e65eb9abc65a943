package disk

import (
	"bytes"
	"fmt"
	"slices"
)

// sector is the number of bytes that a disk writes whole or not at all.
const sector = 512

// A Disk is the model of one file on a disk. See the package comment.
type Disk struct {
	exists  bool
	named   bool // the name is durable
	durable []byte
	pending []change // since the last sync, in their order, after those whose sync failed
	latest  []byte   // as a process reads it
}

// A change is a write, or a new length of the file if data is nil.
type change struct {
	off    int64
	data   []byte
	size   int64 // of the file after it
	orphan bool  // its sync failed
}

func (c change) sectors() int { return (len(c.data) + sector - 1) / sector }

// Apply makes the Call's change. It refuses calls that the model does not know.
func (d *Disk) Apply(c Call) error {
	switch c.Kind {
	case Create:
		d.exists = true
	case Write:
		if c.Offset%sector != 0 || len(c.Data)%sector != 0 {
			return fmt.Errorf("disk: a write of %d bytes at %d does not cover whole sectors", len(c.Data), c.Offset)
		}
		end := c.Offset + int64(len(c.Data))
		d.resize(max(end, int64(len(d.latest))))
		copy(d.latest[c.Offset:], c.Data)
		d.pending = append(d.pending, change{off: c.Offset, data: c.Data, size: int64(len(d.latest))})
	case Truncate:
		if c.Size < int64(len(d.latest)) {
			return fmt.Errorf("disk: a truncation from %d to %d bytes is not known here", len(d.latest), c.Size)
		}
		d.resize(c.Size)
		d.pending = append(d.pending, change{size: c.Size})
	case Sync:
		d.sync(c.Failed)
	case SyncDir:
		d.named = d.named || d.exists && !c.Failed
	}
	return nil
}

func (d *Disk) resize(n int64) {
	d.latest = append(d.latest, make([]byte, n-int64(len(d.latest)))...)
}

// sync makes the pending changes durable. If it fails, they stay pending for good, until the same sectors are written
// anew.
func (d *Disk) sync(failed bool) {
	if failed {
		var orphans []change
		for _, c := range d.pending {
			if c.data == nil || c.orphan {
				c.orphan = true
				orphans = append(orphans, c)
				continue
			}
			for i := range c.sectors() { // each sector is written anew for itself
				at := int64(i) * sector
				orphans = append(orphans, change{c.off + at, c.data[at : at+sector], c.size, true})
			}
		}
		d.pending = orphans
		return
	}
	var orphans []change
	for _, c := range d.pending {
		if c.orphan {
			orphans = append(orphans, c)
			continue
		}
		if n := c.size - int64(len(d.durable)); n > 0 {
			d.durable = append(d.durable, make([]byte, n)...)
		}
		copy(d.durable[c.off:], c.data)
		orphans = slices.DeleteFunc(orphans, func(o change) bool {
			return o.data == nil && o.size <= c.size ||
				o.data != nil && c.off <= o.off && o.off+sector <= c.off+int64(len(c.data))
		})
	}
	d.pending = orphans
}

// Latest returns the file as a process reads it, unsynced writes included. exists is false if there is none.
func (d *Disk) Latest() (content []byte, exists bool) { return d.latest, d.exists }

// idle reports whether a sync has nothing to make durable but the length of the file. The next sync does that too, and
// nothing was acknowledged in between.
func (d *Disk) idle(c Call) bool {
	if c.Kind == SyncDir {
		return d.named
	}
	durable := make([]byte, len(d.latest))
	copy(durable, d.durable)
	return bytes.Equal(durable, d.latest)
}

// image returns the file with the sectors that keep chooses, and the length.
func (d *Disk) image(size int64, keep func(i, sector int) bool) []byte {
	content := make([]byte, len(d.latest))
	copy(content, d.durable)
	for i, c := range d.pending {
		for s := range c.sectors() {
			if keep(i, s) {
				copy(content[c.off+int64(s)*sector:], c.data[s*sector:(s+1)*sector])
			}
		}
	}
	return content[:size]
}

// sizes returns the lengths that the file may have.
func (d *Disk) sizes() []int64 {
	sizes := []int64{int64(len(d.durable))}
	for _, c := range d.pending {
		if !slices.Contains(sizes, c.size) {
			sizes = append(sizes, c.size)
		}
	}
	return sizes
}
