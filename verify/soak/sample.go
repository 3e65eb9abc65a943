package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"
)

// A sample is the state of the process at one time.
type sample struct {
	at         time.Duration
	operations int64
	goroutines int
	files      int   // open file descriptors, sockets included
	heap       int64 // live bytes, after a collection
	stored     int64 // bytes of the store: see engine.size
}

func takeSample(at time.Duration, operations, stored int64) sample {
	return sample{
		at: at, operations: operations, goroutines: runtime.NumGoroutine(), files: openFiles(),
		heap: liveHeap(), stored: stored,
	}
}

// liveHeap returns the bytes of the heap after a collection.
func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// openFiles returns zero where the system has no /proc.
func openFiles() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

const head = "%10s%13s%12s%8s%12s%12s\n"

func (s sample) write(w io.Writer) {
	fmt.Fprintf(w, head, s.at.Round(time.Second), fmt.Sprint(s.operations), fmt.Sprint(s.goroutines),
		fmt.Sprint(s.files), mebibytes(s.heap), mebibytes(s.stored))
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// flat returns an error for each figure that grew in the second half of the samples. The first half warms up: pools
// fill, and records reach their retention. The largest figure of the last quarter may exceed that of the quarter
// before it by a tenth and an allowance.
func flat(all []sample) error {
	if len(all) < 8 {
		return fmt.Errorf("%d samples show no trend, it takes 8", len(all))
	}
	from, mid := len(all)/2, len(all)*3/4
	var grown []error
	for _, f := range []struct {
		name      string
		of        func(sample) int64
		allowance int64
	}{
		{"goroutines", func(s sample) int64 { return int64(s.goroutines) }, 20},
		{"open files", func(s sample) int64 { return int64(s.files) }, 20},
		{"live heap in bytes", func(s sample) int64 { return s.heap }, 4 << 20},
		{"the store in bytes", func(s sample) int64 { return s.stored }, 4 << 20},
	} {
		before, after := largest(all[from:mid], f.of), largest(all[mid:], f.of)
		if after > before+before/10+f.allowance {
			grown = append(grown, fmt.Errorf("%s grew from %d to %d", f.name, before, after))
		}
	}
	return errors.Join(grown...)
}

func largest(all []sample, of func(sample) int64) (most int64) {
	for _, s := range all {
		most = max(most, of(s))
	}
	return most
}
