package redo

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
)

// A KeyFunc makes the Idempotency-Key of a new operation. The operation is its name, empty for a request
// that has none. It is called once per call, never per attempt (and once more where a call
// has failed, to see whether the name alone gives the key). It must be safe for concurrent use.
// What it returns is checked like any key: 1 to 255 printable ASCII characters.
type KeyFunc func(operation string) (string, error)

// uuidLength is how long a UUID is as text.
const uuidLength = 36

// TimeOrderedKeys makes UUIDv7 keys (RFC 9562 §5.7). It is the default: the time in the key lets a server
// refuse one that is older than its retention, instead of running it as new.
func TimeOrderedKeys(string) (string, error) { return timeOrderedKey(time.Now()) }

func timeOrderedKey(now time.Time) (string, error) {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:8], uint64(now.UnixMilli())<<16)
	if err := entropy.read(id[6:]); err != nil {
		return "", fmt.Errorf("redo: making a key: %w", err)
	}
	id[6] = id[6]&0x0f | 0x70 // version 7
	id[8] = id[8]&0x3f | 0x80 // the variant of RFC 9562
	return id.String(), nil
}

// A pool hands out bytes of crypto/rand, which it fetches for many keys at once: that takes longer than all the rest
// of a key. It is safe for concurrent use. No byte is handed out twice.
type pool struct {
	mu   sync.Mutex
	buf  [640]byte
	left int
}

var entropy pool

func (p *pool) read(b []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left < len(b) {
		if _, err := rand.Read(p.buf[:]); err != nil {
			return err
		}
		p.left = len(p.buf)
	}
	taken := p.buf[p.left-len(b) : p.left]
	copy(b, taken)
	clear(taken)
	p.left -= len(b)
	return nil
}

// RandomKeys makes UUIDv4 keys (RFC 9562 §5.4), for servers that must not learn when a key was made.
func RandomKeys(string) (string, error) {
	id, err := uuid.NewRandom()
	if err != nil {
		return "", fmt.Errorf("redo: making a key: %w", err)
	}
	return id.String(), nil
}

// keyNamespace is the UUID under which namespaces that are not UUIDs themselves are hashed. It is part of
// the contract: changing it would change every derived key.
var keyNamespace = uuid.MustParse("0d3b8b0e-6f0b-5f5c-9c57-7a2f6f6c3a51")

// DerivedKeys makes UUIDv5 keys (RFC 9562 §5.5) from the operation's name: the same name in the same
// namespace gives the same key, on every machine and after every restart, with no store at all. The
// namespace is a UUID, or any other text, which is hashed into one; separate environments (live and test)
// want separate namespaces. A request without an operation is refused.
//
// A derived key can't be renewed: an operation that failed for good is tried again under another name.
func DerivedKeys(namespace string) KeyFunc {
	ns, err := uuid.Parse(namespace)
	if err != nil {
		ns = uuid.NewSHA1(keyNamespace, []byte(namespace))
	}
	return func(operation string) (string, error) {
		switch {
		case namespace == "":
			return "", fmt.Errorf("redo: DerivedKeys: the namespace is empty")
		case operation == "":
			return "", fmt.Errorf("redo: DerivedKeys: the request has no operation to derive a key from: use WithOperation")
		}
		return uuid.NewSHA1(ns, []byte(operation)).String(), nil
	}
}
