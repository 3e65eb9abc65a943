package server

import (
	"crypto/rand"
	"strconv"
	"sync/atomic"
)

// ownerPrefix is this process's part of every Claim.Owner: 80 random bits.
var ownerPrefix = rand.Text()[:16]

var ownersMade atomic.Uint64

// newOwner returns a Claim.Owner that no other claim has, in this process or another.
func newOwner() string {
	var buf [32]byte
	return string(strconv.AppendUint(append(buf[:0], ownerPrefix...), ownersMade.Add(1), 36))
}
