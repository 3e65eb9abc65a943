package boltstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
)

const (
	blankPages = 4   // of a new file: two meta pages, the list of free pages, and an empty leaf as the root
	sector     = 512 // a disk writes so many bytes whole or not at all
)

// blankFile returns what bbolt writes first into a new file.
func blankFile(pageSize int) []byte {
	file := make([]byte, blankPages*pageSize)
	for id, flags := range [blankPages]uint16{metaPage, metaPage, freelistPage, leafPage} {
		page := file[id*pageSize:]
		native.PutUint64(page, uint64(id))
		native.PutUint16(page[8:], flags)
		if flags != metaPage {
			continue
		}
		content := page[pageHeader:]
		_, _ = binary.Encode(content, native, meta{
			Magic: 0xED0CDAED, Version: 2, PageSize: uint32(pageSize),
			Root: 3, Freelist: 2, Pages: blankPages, Tx: uint64(id),
		})
		native.PutUint64(content[metaSum:], sumOf(content))
	}
	return file
}

// torn reports whether content is a blank file that a power cut left by half. Each sector is then the blank file's or
// has zeros.
func torn(content, blank []byte) bool {
	if len(content) > len(blank) || bytes.Equal(content, blank) {
		return false
	}
	zeros := make([]byte, sector)
	for at := 0; at < len(content); at += sector {
		s := content[at:min(at+sector, len(content))]
		if !bytes.Equal(s, zeros[:len(s)]) && !bytes.Equal(s, blank[at:at+len(s)]) {
			return false
		}
	}
	return true
}

// emptyIfTorn empties the file if a power cut interrupted bbolt while it made the file. Nothing was ever committed to
// it, and bbolt makes an empty file anew. Errors of opening, locking and reading are left to bbolt, which meets them
// too.
func emptyIfTorn(path string, size int64) (err error) {
	blank := blankFile(os.Getpagesize())
	if size == 0 || size > int64(len(blank)) {
		return nil
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if lock(file) != nil { // another process may be making it
		return nil
	}
	content, err := io.ReadAll(io.LimitReader(file, int64(len(blank))+1))
	if err != nil || !torn(content, blank) {
		return nil
	}
	if err := file.Truncate(0); err != nil {
		return refusal(path, errOpen, "%w", err)
	}
	return nil
}
