// Package frametest holds the rules for the middleware in a web framework, as a suite over a real socket. Each
// framework's tests build one [Wiring] of it and call [Run].
package frametest
