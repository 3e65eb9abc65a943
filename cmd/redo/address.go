package main

import (
	"fmt"
	"net"
	"strconv"
)

// checkAddress returns an error for a text that is no address to listen on. An empty host means every interface, which
// takes a colon.
func checkAddress(flag, address, example string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%s %q: it must be a host and a port, such as %s", flag, address, example)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%s %q: %q is no port", flag, address, port)
	}
	return nil
}
