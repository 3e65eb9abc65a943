package taxonomy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
)

// transportCode returns the code of an error that left an attempt without a usable response. An unknown error, nil
// included, is a failed connection.
func transportCode(err error) Code {
	if c, ok := ownCode(err); ok {
		return c
	}
	if code, ok := http2Code(err); ok {
		return code
	}
	switch {
	case isTLS(err):
		return TLS
	case isBadURL(err):
		return BadURL
	case isTimeout(err):
		return Timeout
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		// A resolver's failure does not prove that the name doesn't exist.
		if dns.IsNotFound && !dns.IsTemporary {
			return UnknownHost
		}
		return Unavailable
	}
	switch {
	case isRefused(err):
		return Unavailable
	case isReset(err), errors.Is(err, syscall.EPIPE):
		return Reset
	case errors.Is(err, io.ErrUnexpectedEOF):
		return Truncated
	case errors.Is(err, io.EOF):
		return EOF
	}
	return Connection
}

// ownCode returns the code that the error wraps, and whether it wraps one. Codes of the class success are ignored,
// since they are no failures.
func ownCode(err error) (Code, bool) {
	c, ok := errors.AsType[Code](err)
	return c, ok && isCode(c) && c.class() != ClassSuccess
}

// isTLS reports whether a TLS error is permanent: an untrusted certificate, or a peer that doesn't speak TLS. The
// peer's alerts are excluded, since some of them are temporary.
func isTLS(err error) bool {
	return errors.Is(err, http.ErrSchemeMismatch) || // net/http replaces some RecordHeaderErrors by it
		wraps[tls.RecordHeaderError](err) ||
		wraps[*tls.CertificateVerificationError](err) ||
		wraps[*tls.ECHRejectionError](err) ||
		// The caller's VerifyConnection or VerifyPeerCertificate returns these bare.
		wraps[x509.UnknownAuthorityError](err) ||
		wraps[x509.HostnameError](err) ||
		wraps[x509.CertificateInvalidError](err) ||
		wraps[x509.SystemRootsError](err) ||
		wraps[x509.ConstraintViolationError](err) ||
		wraps[x509.UnhandledCriticalExtension](err) ||
		wraps[x509.InsecureAlgorithmError](err)
}

func wraps[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// isBadURL reports whether the URL can't be parsed or its address can't be dialed. Every error of an http.Client is
// a *url.Error, so its operation is compared.
func isBadURL(err error) bool {
	for u, ok := errors.AsType[*url.Error](err); ok; u, ok = errors.AsType[*url.Error](u.Err) {
		if u.Op == "parse" {
			return true
		}
	}
	return wraps[*net.AddrError](err)
}

// isTimeout reports whether any error in the tree is a timeout. errors.As would stop at the first error with a
// Timeout method, and that one may not know of an inner timeout.
func isTimeout(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || anyError(err, func(err error) bool {
		t, ok := err.(interface{ Timeout() bool })
		return ok && t.Timeout()
	})
}

// anyError reports whether match is true for err or for any error that it wraps.
func anyError(err error, match func(error) bool) bool {
	for err != nil {
		if match(err) {
			return true
		}
		switch w := err.(type) {
		case interface{ Unwrap() error }:
			err = w.Unwrap()
		case interface{ Unwrap() []error }:
			for _, e := range w.Unwrap() {
				if anyError(e, match) {
					return true
				}
			}
			return false
		default:
			return false
		}
	}
	return false
}
