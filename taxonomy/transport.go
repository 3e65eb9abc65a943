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

// transportCode returns the code of an error that left an attempt without a usable response. What it doesn't
// know, nil included, is a failed connection.
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
		// A resolver that failed is no proof that the name doesn't exist.
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

// ownCode returns the code that the error wraps, if it wraps one. Success-like codes are no failures, so they
// don't count.
func ownCode(err error) (Code, bool) {
	c, ok := errors.AsType[Code](err)
	return c, ok && isCode(c) && c.class() != ClassSuccess
}

// isTLS holds for what no repetition repairs: a certificate that is not trusted, or a peer that doesn't speak
// TLS. An alert that the peer sent is not among them, since it also tells of passing failures.
func isTLS(err error) bool {
	return errors.Is(err, http.ErrSchemeMismatch) || // what net/http makes of some RecordHeaderErrors
		wraps[tls.RecordHeaderError](err) ||
		wraps[*tls.CertificateVerificationError](err) ||
		wraps[*tls.ECHRejectionError](err) ||
		// A VerifyConnection or VerifyPeerCertificate of the caller's returns these bare.
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

// isBadURL holds for a URL that can't be parsed and for an address that can't be dialed. Every error of an
// http.Client is a *url.Error, so it is the operation that tells.
func isBadURL(err error) bool {
	for u, ok := errors.AsType[*url.Error](err); ok; u, ok = errors.AsType[*url.Error](u.Err) {
		if u.Op == "parse" {
			return true
		}
	}
	return wraps[*net.AddrError](err)
}

// isTimeout holds where any error in the tree says so: errors.As would stop at the first that can be asked,
// and an outer one may not know what an inner one does.
func isTimeout(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || anyError(err, func(err error) bool {
		t, ok := err.(interface{ Timeout() bool })
		return ok && t.Timeout()
	})
}

// anyError reports whether match holds for err or for anything that it wraps.
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
