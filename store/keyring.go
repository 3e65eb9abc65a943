package store

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"fmt"
	"sync/atomic"
)

// Limits of a [SealKey].
const (
	SealSecret   = 32 // bytes of SealKey.Secret: AES-256
	MaxSealKeyID = 32 // bytes of SealKey.ID
)

// A SealKey encrypts results and metas. Its text forms show the ID only.
type SealKey struct {
	ID     string // 1 to MaxSealKeyID bytes, stored with each value that the key seals
	Secret []byte // SealSecret random bytes
}

// String returns the key's ID. It never returns the secret.
func (k SealKey) String() string { return fmt.Sprintf("SealKey(%q)", k.ID) }

// GoString is String, so that %#v shows no secret either.
func (k SealKey) GoString() string { return k.String() }

// MarshalText is String, so that JSON and logs show no secret either.
func (k SealKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// SealKeys are the keys of a [Keyring].
type SealKeys struct {
	// Seal encrypts each written value, and decrypts.
	Seal SealKey
	// Open decrypts only: the keys before a rotation, and the next key of other processes.
	Open []SealKey
	// AcceptPlain also reads values that were written before the store was sealed. Any writer to the engine can then
	// plant a value, so set it for one retention only.
	AcceptPlain bool
}

// A Keyring holds the keys of [Sealed] stores. Make one with NewKeyring. It may be used concurrently.
//
// One key should seal at most 2³² values, because nonces are random. Rotate the key before that.
type Keyring struct{ set atomic.Pointer[sealSet] }

// NewKeyring returns a Keyring of the keys. The error wraps ErrInvalid for an empty or long ID, for a secret of
// another length, and for two keys with one ID.
func NewKeyring(keys SealKeys) (*Keyring, error) {
	k := &Keyring{}
	if err := k.Set(keys); err != nil {
		return nil, err
	}
	return k, nil
}

// Set replaces the keys for all calls that begin afterwards. If it returns an error, the keys are unchanged.
//
// To rotate without a failed request, first add the next key to Open in every process. Then make it Seal, and keep
// the previous key in Open. Drop the previous key after the longest retention.
func (k *Keyring) Set(keys SealKeys) error {
	next := &sealSet{seal: keys.Seal.ID, ciphers: map[string]cipher.AEAD{}, plain: keys.AcceptPlain}
	for _, key := range append([]SealKey{keys.Seal}, keys.Open...) {
		switch {
		case key.ID == "" || len(key.ID) > MaxSealKeyID:
			return fmt.Errorf("%w: the ID of a seal key has %d bytes, it must have 1 to %d",
				ErrInvalid, len(key.ID), MaxSealKeyID)
		case len(key.Secret) != SealSecret:
			return fmt.Errorf("%w: the secret of %v has %d bytes, it must have %d",
				ErrInvalid, key, len(key.Secret), SealSecret)
		case next.ciphers[key.ID] != nil:
			return fmt.Errorf("%w: two seal keys have the ID %q", ErrInvalid, key.ID)
		}
		block, err := aes.NewCipher(key.Secret)
		if err != nil {
			return fmt.Errorf("%w: %v: %w", ErrInvalid, key, err)
		}
		if next.ciphers[key.ID], err = cipher.NewGCMWithRandomNonce(block); err != nil {
			return fmt.Errorf("%w: %v: %w", ErrInvalid, key, err)
		}
	}
	k.set.Store(next)
	return nil
}

// A sealSet is the keys of a Keyring at one time. It is never changed.
type sealSet struct {
	seal    string // the ID of the sealing key
	ciphers map[string]cipher.AEAD
	plain   bool
}

// A sealed value is the magic, the length of the key's ID in a byte, the ID, the nonce, and the ciphertext with its
// tag. The first byte of the magic never begins a text in UTF-8. The last one is the version.
const (
	sealName     = "\xf5RS"
	sealMagic    = sealName + "\x01"
	sealNonceTag = 12 + 16 // of AES-GCM
	sealOverhead = len(sealMagic) + 1 + MaxSealKeyID + sealNonceTag
)

// A sealedField is the field that a value is sealed for. It is authenticated, so that a result can't stand in for a
// meta.
type sealedField byte

const (
	sealedResult sealedField = 'r'
	sealedNil    sealedField = 'n' // a result that is nil, so that a result that was removed is noticed
	sealedMeta   sealedField = 'm'
)

// A sealPlace is where a value is sealed: it can be opened in no other record and no other field.
type sealPlace struct {
	id    ID
	field sealedField
}

func (p sealPlace) bytes() []byte {
	b := make([]byte, 0, 1+binary.MaxVarintLen32+len(p.id.Scope)+len(p.id.Key))
	b = append(b, byte(p.field))
	b = binary.AppendUvarint(b, uint64(len(p.id.Scope)))
	b = append(b, p.id.Scope...)
	return append(b, p.id.Key...)
}

// sealed reports whether the value looks like a sealed one.
func sealed(value []byte) bool {
	return len(value) >= len(sealMagic) && string(value[:len(sealMagic)]) == sealMagic
}

// close encrypts a value for its place. A nil meta stays nil.
func (k *Keyring) close(value []byte, at sealPlace) []byte {
	switch {
	case value != nil:
	case at.field == sealedResult:
		at.field = sealedNil
	default:
		return nil
	}
	set := k.set.Load()
	out := make([]byte, 0, len(sealMagic)+1+len(set.seal)+sealNonceTag+len(value))
	out = append(out, sealMagic...)
	out = append(out, byte(len(set.seal)))
	out = append(out, set.seal...)
	return set.ciphers[set.seal].Seal(out, nil, value, at.bytes())
}

// open decrypts a value of its place. Its error wraps ErrUnavailable if the key is missing, and ErrDamaged too if the
// value was changed, moved from another record, or never sealed. A nil meta is nil. A nil result was removed.
func (k *Keyring) open(value []byte, at sealPlace) ([]byte, error) {
	set := k.set.Load()
	if value == nil {
		if at.field == sealedMeta || set.plain {
			return nil, nil
		}
		return nil, damagedSeal(at, "it is missing")
	}
	if !sealed(value) {
		// An engine writes the unknown outcome itself, unsealed, and that outcome holds no secret.
		if set.plain || string(value) == unknown {
			return value, nil
		}
		if len(value) >= len(sealMagic) && string(value[:len(sealName)]) == sealName {
			return nil, fmt.Errorf("store: %v was sealed by a newer version of redo: %w", at.id, ErrUnavailable)
		}
		return nil, damagedSeal(at, "it is not sealed")
	}
	rest := value[len(sealMagic):]
	if len(rest) == 0 || len(rest) < 1+int(rest[0])+sealNonceTag {
		return nil, damagedSeal(at, "it is cut off")
	}
	id := string(rest[1 : 1+int(rest[0])])
	key := set.ciphers[id]
	if key == nil {
		return nil, fmt.Errorf("store: %v is sealed with the key %q, which is not in the keyring: %w",
			at.id, id, ErrUnavailable)
	}
	box := rest[1+len(id):]
	plain, err := key.Open([]byte{}, nil, box, at.bytes())
	if err == nil {
		return plain, nil
	}
	if at.field == sealedResult && len(box) == sealNonceTag {
		if _, err := key.Open(nil, nil, box, sealPlace{at.id, sealedNil}.bytes()); err == nil {
			return nil, nil
		}
	}
	return nil, damagedSeal(at, fmt.Sprintf("the key %q does not open it", id))
}

func damagedSeal(at sealPlace, why string) error {
	field := "result"
	if at.field == sealedMeta {
		field = "meta"
	}
	return fmt.Errorf("store: the sealed %s of %v: %s: %w: %w", field, at.id, why, ErrDamaged, ErrUnavailable)
}
