package redisstore

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redo-go/redo/store"
)

// shardCount is part of the format: with another number the store would not find existing records.
const shardCount = 256

// secretSize is the size of a layout's secret, in bytes. Callers can't observe the hash, so that it need not be
// longer.
const secretSize = 8

// A layout names keys. "redo:{07}:r:5:scopekey" is a record, and "redo:{07}:pending" is its shard's index. The
// braces hold the part that a cluster hashes. The shard is chosen by a hash under a secret, so that a caller who
// chooses keys can't load one shard.
type layout struct {
	secret [secretSize]byte
	mark   string // the layout's member in each index
	shards [shardCount]shard
}

// A shard holds the names that its records share.
type shard struct{ records, pending string }

func newLayout(prefix string, secret [secretSize]byte) *layout {
	l := &layout{secret: secret, mark: markLead + hex.EncodeToString(secret[:])}
	for i := range l.shards {
		tag := fmt.Sprintf("%s:{%02x}:", prefix, i)
		l.shards[i] = shard{records: tag + "r:", pending: tag + "pending"}
	}
	return l
}

// record returns the two keys of the scripts of an ID: its record and the index.
func (l *layout) record(id store.ID) [2]string {
	sh := &l.shards[l.shardOf(id)]
	return [2]string{sh.records + strconv.Itoa(len(id.Scope)) + ":" + id.Scope + id.Key, sh.pending}
}

// shardOf is the first byte of the SHA-256 of the secret and the ID. The scope's length separates scope and key.
func (l *layout) shardOf(id store.ID) uint8 {
	var room [256]byte // on the stack, enough for most IDs
	text := append(room[:0], l.secret[:]...)
	text = append(strconv.AppendInt(text, int64(len(id.Scope)), 10), ':')
	text = append(append(text, id.Scope...), id.Key...)
	sum := sha256.Sum256(text)
	return sum[0]
}

var errKey = errors.New("not the key of a record")

// recordID returns the ID of a record's key. The prefix has no braces.
func recordID(key string) (store.ID, error) {
	_, text, _ := strings.Cut(key, "}:r:")
	digits, rest, _ := strings.Cut(text, ":")
	n, _ := strconv.Atoi(digits)
	if n < 0 || n > len(rest) || strconv.Itoa(n) != digits {
		return store.ID{}, errKey
	}
	id := store.ID{Scope: rest[:n], Key: rest[n:]}
	return id, id.Validate()
}
