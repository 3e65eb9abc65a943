//go:build !linux

package main

import "os"

// syncData makes the file durable.
func syncData(f *os.File) error { return f.Sync() }
