package pgtest_test

import (
	"fmt"

	"github.com/redo-go/redo/store/pgstore/pgtest"
)

// A pooler has few connections to its server, which its clients share.
func ExamplePooler() {
	fmt.Println(pgtest.PoolSize)
	// Output: 5
}
