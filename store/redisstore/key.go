package redisstore

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redo-go/redo/store"
)

// shardCount is part of the layout: another number would look for records elsewhere.
const shardCount = 256

// A layout names keys: "redo:{07}:r:5:scopekey" is a record, "redo:{07}:pending" is its shard's
// index. What stands in the braces is all that a cluster looks at; it is never the caller's, so that no choice of
// keys loads one machine.
type layout struct {
	channel string // where the end of what somebody waits for is published
	shards  [shardCount]shard
}

// A shard holds the names that its records share.
type shard struct{ records, pending string }

func newLayout(prefix string) *layout {
	l := &layout{channel: prefix + ":wake"}
	for i := range l.shards {
		tag := fmt.Sprintf("%s:{%02x}:", prefix, i)
		l.shards[i] = shard{records: tag + "r:", pending: tag + "pending"}
	}
	return l
}

// record returns the two keys that a record's script may touch, and the ID as the index holds it, which the first ends with.
func (l *layout) record(id store.ID) (keys [2]string, text string) {
	scope := strconv.Itoa(len(id.Scope)) + ":"
	sh := &l.shards[shardOf(scope, id.Scope, id.Key)]
	key := sh.records + scope + id.Scope + id.Key
	return [2]string{key, sh.pending}, key[len(sh.records):]
}

// shardOf is FNV-1a of what the parts make together, modulo the number of shards.
func shardOf(parts ...string) uint32 {
	h := uint32(2166136261)
	for _, part := range parts {
		for i := range len(part) {
			h = (h ^ uint32(part[i])) * 16777619
		}
	}
	return h % shardCount
}

var errIDText = errors.New("not an ID")

// parseID reads an ID's text: the scope's length, the scope and the key. The length makes it one text per ID, whatever bytes
// it holds.
func parseID(text string) (store.ID, error) {
	digits, rest, ok := strings.Cut(text, ":")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 0 || n > len(rest) || strconv.Itoa(n) != digits {
		return store.ID{}, errIDText
	}
	id := store.ID{Scope: rest[:n], Key: rest[n:]}
	return id, id.Validate()
}
