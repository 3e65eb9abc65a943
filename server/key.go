package server

import (
	"encoding/hex"
	"errors"
	"strings"
	"time"
)

// checkFormat applies the route's own rules.
func (c *config) checkFormat(key string) error {
	for _, f := range c.keyFormats {
		if err := f(key); err != nil {
			return err
		}
	}
	return nil
}

// canonical returns the form of a key under which it is stored. RFC 9562 section 4 gives the digits of a UUID no case.
func (c *config) canonical(key string) string {
	if c.uuidKeys {
		return strings.ToLower(key)
	}
	return key
}

var errNoUUID = errors.New("the key is not a UUID of 36 characters")

func checkUUID(key string) error {
	if _, ok := parseUUID(key); !ok {
		return errNoUUID
	}
	return nil
}

// parseUUID reads the one form that RFC 9562 section 4 defines: five groups of hexadecimal digits. Braces and URNs,
// which general parsers accept, would make several keys of one UUID.
func parseUUID(key string) (u [16]byte, ok bool) {
	if len(key) != 36 || key[8] != '-' || key[13] != '-' || key[18] != '-' || key[23] != '-' {
		return u, false
	}
	at := 0
	for _, group := range [...]string{key[:8], key[9:13], key[14:18], key[19:23], key[24:]} {
		n, err := hex.Decode(u[at:], []byte(group))
		if err != nil {
			return u, false
		}
		at += n
	}
	return u, true
}

// madeAt returns the time in a UUIDv7 (RFC 9562 section 5.7), which has milliseconds since 1970 in its first 48 bits.
func madeAt(key string) (time.Time, bool) {
	u, ok := parseUUID(key)
	if !ok || u[6]>>4 != 7 || u[8]>>6 != 0b10 {
		return time.Time{}, false
	}
	ms := int64(u[0])<<40 | int64(u[1])<<32 | int64(u[2])<<24 | int64(u[3])<<16 | int64(u[4])<<8 | int64(u[5])
	return time.UnixMilli(ms), true
}

// expired reports whether a record of this key may have expired. A record lives at least until the key's
// time plus the retention. A client whose clock is ahead makes keys that look younger than they are, so the
// margin is taken off the retention and not added.
func expired(key string, retention time.Duration, now time.Time) bool {
	made, ok := madeAt(key)
	return ok && now.Sub(made) > retention-min(maxSkew, retention/10)
}

// maxSkew is the longest time by which a client's clock may be ahead.
const maxSkew = 5 * time.Minute
