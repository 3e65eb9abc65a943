package main

import (
	"fmt"
	"net"
	"strconv"
)

// hostOf returns the host of an address to listen on, or an error for a text that is none. An empty host means every
// interface, which takes a colon.
func hostOf(flag, address, example string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("%s %q: it must be a host and a port, such as %s", flag, address, example)
	}
	if !isPort(port) {
		return "", fmt.Errorf("%s %q: %q is no port", flag, address, port)
	}
	return host, nil
}

// isPort reports whether a text is the number of a port.
func isPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}
