package pebblestore

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/racetest"
	"github.com/redo-go/redo/store"
)

// A power cut keeps synced bytes and names, and any part of the others, in any order.
func TestPowerCutLosesNothingAcknowledged(t *testing.T) { powerCuts(t) }

// A group that takes several batches needs one sync.
func TestPowerCutLosesNothingAcknowledgedInSmallBatches(t *testing.T) {
	powerCuts(t, withMaxBatch(200))
}

func powerCuts(t *testing.T, opts ...Option) {
	rounds := 40
	if testing.Short() || racetest.Enabled {
		rounds = 8
	}
	for seed := range rounds {
		disk := newDisk(t)
		lost := ""
		for cut := range 3 { // each on the disk that the last one left
			acked, top, after := cutPower(t, disk, disk, uint64(seed*3+cut), opts...)
			disk = after
			if lost = missing(t, disk, acked, top); lost != "" {
				break
			}
		}
		require.Empty(t, lost, "seed %d", seed)
	}
}

// A disk that drops syncs of the log loses acknowledged changes, and the test sees it.
func TestPowerCutOnLyingDiskIsSeen(t *testing.T) {
	for seed := range uint64(20) {
		disk := newDisk(t)
		acked, top, after := cutPower(t, disk, lyingFS{disk}, seed)
		if missing(t, after, acked, top) != "" {
			return
		}
	}
	t.Fatal("the lost changes were not seen")
}

func newDisk(t *testing.T) *vfs.MemFS {
	disk := vfs.NewCrashableMem()
	require.NoError(t, disk.MkdirAll("/data", 0o700))
	require.NoError(t, syncDir(disk, "/"))
	return disk
}

// cutPower runs workers on a store, and returns their acknowledged words on each key, the highest fence, and the disk
// that the power cut leaves.
func cutPower(t *testing.T, disk *vfs.MemFS, fs vfs.FS, seed uint64, opts ...Option) (
	acked map[string]string, top uint64, after *vfs.MemFS,
) {
	t.Helper()
	s, err := Open("/data/x", append(opts, withFS(fs))...)
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(seed, 1))
	enough := make(chan struct{})
	left := 20 + rng.IntN(300)
	var mu sync.Mutex
	acked = map[string]string{}
	ack := func(word, key string, fence uint64) {
		mu.Lock()
		defer mu.Unlock()
		acked[key], top = word, max(top, fence)
		if left--; left == 0 {
			close(enough)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				key := fmt.Sprintf("%d-%d-%d", seed, w, i)
				c := claim(key)
				c.Meta = []byte(strings.Repeat(key, 1+i%200))
				c.Lazy = i%4 == 2
				g, err := s.Reserve(ctx, c)
				if err != nil {
					return
				}
				if c.Lazy {
					ack("lazily reserved", key, g.Lease.Fence)
					next, err := s.Reserve(ctx, claim(key+" next"))
					if err != nil {
						return
					}
					ack("reserved", key+" next", next.Lease.Fence)
				}
				ack("reserved", key, g.Lease.Fence) // at the latest with the next durable change
				switch i % 3 {
				case 0:
					if s.Complete(ctx, g.Lease, store.Outcome{Result: []byte(key)}) == nil {
						ack("completed", key, 0)
					}
				case 1:
					ack("releasing", key, 0)
					if s.Release(ctx, g.Lease) == nil {
						ack("released", key, 0)
					}
				}
			}
		})
	}
	<-enough
	mu.Lock()
	said, fence := maps.Clone(acked), top
	after = disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
	mu.Unlock() // no worker has begun a release since the copy
	cancel()
	wg.Wait()
	require.NoError(t, s.Close())
	return said, fence, after
}

// missing returns an acknowledged change that the disk lacks.
func missing(t *testing.T, disk vfs.FS, acked map[string]string, top uint64) string {
	t.Helper()
	s, err := Open("/data/x", withFS(disk))
	if err != nil {
		return err.Error()
	}
	defer func() { require.NoError(t, s.Close()) }()
	require.NoError(t, s.Verify(t.Context()))
	for key, word := range acked {
		r, err := s.Find(t.Context(), claim(key).ID)
		gone := err != nil
		if gone {
			require.ErrorIs(t, err, store.ErrNotFound)
		}
		switch {
		case word == "reserved" && gone, word == "completed" && r.State != store.StateComplete, word == "released" && !gone:
			return fmt.Sprintf("%s was %s, and is %q now (%v)", key, word, r.State, err)
		}
	}
	g, err := s.Reserve(t.Context(), claim(fmt.Sprint("after ", top)))
	require.NoError(t, err)
	if g.Lease.Fence <= top {
		return fmt.Sprintf("the fence %d was given out before", g.Lease.Fence)
	}
	return ""
}

// A lyingFS does not sync logs.
type lyingFS struct{ vfs.FS }

func (l lyingFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := l.FS.Create(name, c)
	return lying(name, f), err
}

func (l lyingFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := l.FS.ReuseForWrite(old, name, c)
	return lying(name, f), err
}

func lying(name string, f vfs.File) vfs.File {
	if strings.HasSuffix(name, ".log") {
		return lyingFile{f}
	}
	return f
}

type lyingFile struct{ vfs.File }

func (lyingFile) Sync() error                             { return nil }
func (lyingFile) SyncData() error                         { return nil }
func (lyingFile) SyncTo(int64) (fullSync bool, err error) { return true, nil }
