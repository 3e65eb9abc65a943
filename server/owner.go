package server

import (
	"crypto/rand"
	"encoding/base64"
)

// An ownerNonce is the random part of a Claim.Owner: 96 bits. It is a part of its execution, to save an allocation.
type ownerNonce [12]byte

// newOwner returns a Claim.Owner that no other claim has, in this process or another. It is drawn anew for each claim,
// because a process that is restored from a snapshot more than once has its state in each copy.
func (n *ownerNonce) newOwner() string {
	rand.Read(n[:])
	var text [16]byte
	base64.RawURLEncoding.Encode(text[:], n[:])
	return string(text[:])
}
