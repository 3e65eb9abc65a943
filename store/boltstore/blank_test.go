package boltstore

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/redo-go/redo/internal/hangtest"
	"github.com/redo-go/redo/store"
)

func TestBlankFileIsBboltsOwn(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there bbolt lengthens each file that it opens")
	}
	path := tempFile(t)
	db, err := bbolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	require.True(t, bytes.Equal(readAll(t, path), blankFile(os.Getpagesize())))
}

// A power cut in the first Open leaves any sectors of the blank file, and any length. The next Open makes the file
// anew.
func TestPowerCutInTheFirstOpen(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there the file must be deleted by hand")
	}
	blank := blankFile(os.Getpagesize())
	contents := map[string][]byte{
		"zeros":              make([]byte, len(blank)),
		"one sector":         blank[:sector],
		"no first meta page": append(make([]byte, os.Getpagesize()), blank[os.Getpagesize():]...),
		"no last page":       blank[:len(blank)-os.Getpagesize()],
		"half of a sector":   blank[:sector/2],
		"whole":              blank,
	}
	random := rand.New(rand.NewPCG(1, 1))
	for i := range 20 {
		content := bytes.Clone(blank)
		for at := 0; at < len(content); at += sector {
			if random.IntN(2) == 0 {
				clear(content[at : at+sector])
			}
		}
		contents["random "+string(rune('a'+i))] = content
	}
	for name, content := range contents {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "torn.redo")
			require.NoError(t, os.WriteFile(path, content, 0o600))
			s := mustOpen(t, path)
			g := mustReserve(t, s, claim("a"), store.Acquired)
			require.NoError(t, s.Complete(t.Context(), g.Lease, store.Outcome{Result: []byte("kept")}))
			require.NoError(t, hangtest.Within(t, s.Close))
			r, err := mustOpen(t, path).Find(t.Context(), g.Lease.ID)
			require.NoError(t, err)
			require.Equal(t, "kept", string(r.Result))
		})
	}
}

// Only what a blank file may be is emptied.
func TestOpenEmptiesNothingElse(t *testing.T) {
	blank := blankFile(os.Getpagesize())
	content := bytes.Clone(blank)
	clear(content[:sector])
	changed := func(at int, b byte) []byte {
		c := bytes.Clone(content)
		c[at] = b
		return c
	}
	sample := newSample(t, 3)
	metas := 2 * os.Getpagesize()
	for name, content := range map[string][]byte{
		"another byte in a sector of zeros": changed(sector-1, 1),
		"another byte in the second meta":   changed(os.Getpagesize()+sector-1, 1),
		"another byte in the last sector":   changed(len(content)-1, 1),
		"one byte more":                     append(bytes.Clone(content), 0),
		"a store cut short to four pages":   sample.content[:len(blank)],
		"and without its meta pages":        append(make([]byte, metas), sample.content[metas:len(blank)]...),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "other.redo")
			require.NoError(t, os.WriteFile(path, content, 0o600))
			_, err := Open(path)
			require.ErrorIs(t, err, store.ErrUnavailable)
			requireUnchanged(t, content, path)
		})
	}
}

// A torn file that another process has locked is being made there.
func TestTornFileInUseIsLeftAlone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there the file must be deleted by hand")
	}
	path := tempFile(t)
	content := blankFile(os.Getpagesize())[:sector]
	require.NoError(t, os.WriteFile(path, content, 0o600))
	other, err := os.Open(path)
	require.NoError(t, err)
	require.NoError(t, lock(other))
	_, err = Open(path)
	require.ErrorIs(t, err, ErrInUse)
	require.True(t, bytes.Equal(content, readAll(t, path)))
	require.NoError(t, other.Close())
	mustOpen(t, path)
}
