// Package quickstart kills the processes of examples/quickstart at random moments.
//
//	go test ./verify/quickstart
package quickstart
