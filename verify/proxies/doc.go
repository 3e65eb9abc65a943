// Package proxies proves the page docs/proxies.md. Its tests run nginx and HAProxy with the settings that the page
// prints, in front of two servers that share their records. They break connections, outlast the proxy's time limits,
// and let the proxy repeat requests. They then count the effects.
//
// Other tests run the client behind squid and tinyproxy, which are forward proxies, as docs/client.md describes.
//
// The tests need the programs nginx, haproxy, squid and tinyproxy. They skip those that are missing, unless
// REDO_TEST_REQUIRE is set.
package proxies
