package redisstore

import (
	"fmt"

	"github.com/redo-go/redo/store"
)

// ShardTag returns the text between the braces of an ID's keys.
func ShardTag(s *Store, id store.ID) string { return fmt.Sprintf("%02x", s.layout.Load().shardOf(id)) }
