package main

import (
	"errors"
	"os"
	"sync"
)

// A groupLog is a file to which callers append. One goroutine writes what has arrived, and syncs it once for all who
// wait. It keeps no index and can't be read: it is the least that a durable store does.
type groupLog struct {
	f     *os.File
	sync  func(*os.File) error
	wake  chan struct{}
	ended chan struct{}

	mu      sync.Mutex
	pending []byte
	waiters []chan error
	closed  bool
}

var errLogClosed = errors.New("benchmarks: the log is closed")

func openLog(path string, sync func(*os.File) error) (*groupLog, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	l := &groupLog{f: f, sync: sync, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go l.write()
	return l, nil
}

// add appends a record, and returns when it is durable.
func (l *groupLog) add(key string, value []byte) error {
	durable := make(chan error, 1)
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return errLogClosed
	}
	l.pending = append(append(l.pending, key...), value...)
	l.waiters = append(l.waiters, durable)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default: // the writer will look anyway
	}
	return <-durable
}

func (l *groupLog) write() {
	defer close(l.ended)
	var batch []byte
	var waiters []chan error
	for range l.wake {
		l.mu.Lock()
		batch, l.pending = l.pending, batch[:0]
		waiters, l.waiters = l.waiters, waiters[:0]
		l.mu.Unlock()
		if len(waiters) == 0 {
			continue
		}
		_, err := l.f.Write(batch)
		if err == nil {
			err = l.sync(l.f)
		}
		for _, w := range waiters {
			w <- err
		}
	}
}

// close is called when no caller waits.
func (l *groupLog) close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	close(l.wake)
	<-l.ended
	return l.f.Close()
}
