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

// A layout names keys: "redo:{07}:r:5:scopekey" is a record, "redo:{07}:pending" and "redo:{07}:fence" are its
// shard's. What stands in the braces is all that a cluster looks at; it is never the caller's, so that no choice of
// keys loads one machine.
type layout struct {
	prefix string
	shards [shardCount]shard
}

// A shard holds the names that its records share.
type shard struct{ records, pending, fence string }

func newLayout(prefix string) *layout {
	l := &layout{prefix: prefix}
	for i := range l.shards {
		tag := fmt.Sprintf("%s:{%02x}:", prefix, i)
		l.shards[i] = shard{records: tag + "r:", pending: tag + "pending", fence: tag + "fence"}
	}
	return l
}

// record returns the three keys that a record's script may touch, and the ID as the index holds it.
func (l *layout) record(id store.ID) (keys [3]string, text string) {
	text = idText(id)
	sh := &l.shards[shardOf(text)]
	return [3]string{sh.records + text, sh.pending, sh.fence}, text
}

// shardOf is FNV-1a, modulo the number of shards.
func shardOf(text string) uint32 {
	h := uint32(2166136261)
	for i := range len(text) {
		h = (h ^ uint32(text[i])) * 16777619
	}
	return h % shardCount
}

// channel is where the end of what somebody waits for is published.
func (l *layout) channel() string { return l.prefix + ":wake" }

// idText is the scope's length, the scope and the key: the length makes it one text per ID, whatever bytes it holds.
func idText(id store.ID) string {
	return strconv.Itoa(len(id.Scope)) + ":" + id.Scope + id.Key
}

var errIDText = errors.New("not an ID")

// parseID reads what idText wrote.
func parseID(text string) (store.ID, error) {
	digits, rest, ok := strings.Cut(text, ":")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 0 || n > len(rest) || strconv.Itoa(n) != digits {
		return store.ID{}, errIDText
	}
	id := store.ID{Scope: rest[:n], Key: rest[n:]}
	return id, id.Validate()
}
