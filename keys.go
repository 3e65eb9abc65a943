package redo

import (
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// A KeyFunc makes the Idempotency-Key of a new operation: 1 to 255 printable ASCII characters. operation is the
// operation's name, empty if the request has none. A call makes one key, never one per attempt. For a named operation
// the client calls the function twice: equal keys show that the key depends on the name alone. A KeyFunc must be safe
// for concurrent use. Its error, or an invalid key, ends the call before anything is sent.
type KeyFunc func(operation string) (string, error)

const uuidLength = 36 // as text

// TimeOrderedKeys makes UUIDv7 keys (RFC 9562 §5.7). It is the default. The time in the key lets a server refuse a
// key that is older than its retention, instead of running it as new.
func TimeOrderedKeys(string) (string, error) { return keyText(uuid.NewV7()) }

// RandomKeys makes UUIDv4 keys (RFC 9562 §5.4), for servers that must not learn when a key was made.
func RandomKeys(string) (string, error) { return keyText(uuid.NewRandom()) }

func keyText(id uuid.UUID, err error) (string, error) {
	if err != nil {
		return "", fmt.Errorf("redo: making a key: %w", err)
	}
	return id.String(), nil
}

// keyNamespace is the UUID under which other namespaces than UUIDs are hashed. Another value would change the keys
// that are derived from them.
var keyNamespace = uuid.MustParse("0d3b8b0e-6f0b-5f5c-9c57-7a2f6f6c3a51")

// DerivedKeys makes UUIDv5 keys (RFC 9562 §5.5) from the operation's name. The same name in the same namespace gives
// the same key, on every machine and after every restart, without a store. The namespace is a UUID, or any other
// text, which is hashed into one. An empty namespace is an error of each call. Use separate namespaces for separate
// environments, such as live and test.
//
// A request that needs a key and has no operation is refused. Under [Client.Transport] it is sent once, without one.
//
// A derived key can't be renewed: repeat a failed operation under another name.
func DerivedKeys(namespace string) KeyFunc {
	ns, err := uuid.Parse(namespace)
	if err != nil {
		ns = uuid.NewSHA1(keyNamespace, []byte(namespace))
	}
	return func(operation string) (string, error) {
		switch {
		case namespace == "":
			return "", errors.New("redo: DerivedKeys: the namespace is empty")
		case operation == "":
			return "", errNameless
		}
		return uuid.NewSHA1(ns, []byte(operation)).String(), nil
	}
}

var errNameless = errors.New("redo: DerivedKeys: the request has no operation to derive a key from: use WithOperation")
