// Package storm shows how retry policies load a server. It plots the load in an outage and after it, and the work
// that contention causes, and counts the use of a quota. The clients are the real libraries in virtual time. gRPC
// and Envoy follow their documentation.
//
//	go test ./verify/sim/storm                                               checks redo's figures
//	go test ./verify/sim/storm -run TestPictures -v -plots $PWD/docs/proof   remakes the plots and prints the tables
package storm
