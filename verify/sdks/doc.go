// Package sdks proves redo's Transport under the SDKs of public APIs. Its tests run each real SDK over redo, against a
// server on a loopback socket. The server honours the API's keys, loses and replaces responses, and counts effects.
//
// Each SDK is a value of type sdk, in a file named after it. The cases that hold for every SDK are in cases_test.go.
// The first call meets a fault; the same code runs a second time; the same code runs after SIGKILL.
//
//	go test ./verify/sdks
//
// The module is never released, so the SDKs are no dependencies of redo.
package sdks
