package boltstore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/redo-go/redo/store"
	"github.com/redo-go/redo/store/boltstore"
	"go.etcd.io/bbolt"
)

// backup copies the file of a store in use. The copy appears under its name when it is complete.
func backup(ctx context.Context, st *boltstore.Store, path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), "backup-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = st.Backup(ctx, f)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// A backup is made while the store is in use. A key that was used after the backup is new to the restored file.
func ExampleStore_Backup() {
	ctx, dir := context.Background(), tempDir()
	defer os.RemoveAll(dir)
	st := openStore(filepath.Join(dir, "bank.redo"))
	defer st.Close()
	pay := func(st *boltstore.Store, key string) {
		claim := store.Claim{ID: store.ID{Scope: "payments", Key: key}, Retention: 24 * time.Hour}
		_, again, err := store.Once(ctx, st, claim, func(context.Context, *boltstore.Tx) (store.Outcome, error) {
			return store.Outcome{Result: []byte("paid")}, nil
		})
		fmt.Printf("%s again: %t, error: %v\n", key, again, err)
	}
	pay(st, "before")
	if err := backup(ctx, st, filepath.Join(dir, "backup.redo")); err != nil {
		log.Fatal(err)
	}
	pay(st, "after")

	restored := openStore(filepath.Join(dir, "backup.redo"))
	defer restored.Close()
	fmt.Println("verified:", restored.Verify(ctx))
	pay(restored, "before")
	pay(restored, "after") // a second time
	// Output:
	// before again: false, error: <nil>
	// after again: false, error: <nil>
	// verified: <nil>
	// before again: true, error: <nil>
	// after again: false, error: <nil>
}

// compact rewrites the file of a store that is closed.
func compact(path string) error {
	src, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := bbolt.Open(path+".compact", 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		return err
	}
	err = bbolt.Compact(dst, src, 64<<20)
	if err = errors.Join(err, dst.Close()); err != nil {
		return err
	}
	return os.Rename(path+".compact", path)
}

// A file never shrinks by itself. Compaction rewrites it while no process has it open.
func Example_compact() {
	dir := tempDir()
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "bank.redo")
	st := openStore(path)
	for i := range 100 {
		c := store.Claim{ID: store.ID{Key: fmt.Sprint(i)}, Retention: time.Hour, Meta: make([]byte, 10_000)}
		g, err := st.Reserve(context.Background(), c)
		if err == nil && i > 0 {
			err = st.Release(context.Background(), g.Lease)
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	if err := st.Close(); err != nil {
		log.Fatal(err)
	}
	before := size(path)
	if err := compact(path); err != nil {
		log.Fatal(err)
	}
	fmt.Println("smaller:", size(path) < before)
	st = openStore(path)
	defer st.Close()
	fmt.Println("verified:", st.Verify(context.Background()))
	_, err := st.Find(context.Background(), store.ID{Key: "0"})
	fmt.Println("found:", err == nil)
	// Output:
	// smaller: true
	// verified: <nil>
	// found: true
}

func tempDir() string {
	dir, err := os.MkdirTemp("", "redo")
	if err != nil {
		log.Fatal(err)
	}
	return dir
}

func openStore(path string) *boltstore.Store {
	st, err := boltstore.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	return st
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		log.Fatal(err)
	}
	return info.Size()
}
