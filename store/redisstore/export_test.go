package redisstore

import (
	"fmt"

	"github.com/redo-go/redo/store"
)

// Moving reports whether the server refused a call because the cluster moves its slot.
var Moving = moving

// ShardTag returns the text between the braces of an ID's keys.
func ShardTag(s *Store, id store.ID) string { return fmt.Sprintf("%02x", s.layout.Load().shardOf(id)) }
