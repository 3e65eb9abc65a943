// Package plain holds tests of the middleware in frameworks and routers that need no adapter.
package plain
