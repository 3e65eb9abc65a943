package main

import (
	"os"
	"syscall"
)

// syncData makes the file's content and length durable, as bbolt and Pebble do.
func syncData(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }
