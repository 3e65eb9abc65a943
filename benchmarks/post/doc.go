// Package post has the POST that all clients are measured with: its request, a transport in memory and servers on
// loopback.
//
// The package belongs to the benchmarks, and is never released.
package post
