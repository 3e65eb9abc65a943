package taxonomy

import (
	"errors"
	"syscall"
)

// wsaeConnRefused is WSAECONNREFUSED, which package syscall doesn't define. The POSIX names that syscall defines on
// Windows are invented numbers, which no socket call returns.
const wsaeConnRefused syscall.Errno = 10061

func isRefused(err error) bool {
	return errors.Is(err, wsaeConnRefused) || errors.Is(err, syscall.ECONNREFUSED)
}

func isReset(err error) bool {
	return errors.Is(err, syscall.WSAECONNRESET) || errors.Is(err, syscall.WSAECONNABORTED) ||
		errors.Is(err, syscall.ECONNRESET)
}
