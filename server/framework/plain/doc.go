// Package plain holds tests of the middleware in frameworks that need no adapter: net/http, chi and connect.
package plain
