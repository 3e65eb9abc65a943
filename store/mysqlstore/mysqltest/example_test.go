package mysqltest_test

import (
	"os"
	"testing"

	"github.com/redo-go/redo/store/mysqlstore/mysqltest"
)

// A package starts the shared server in TestMain.
func ExampleMain() {
	testMain := func(m *testing.M) { os.Exit(mysqltest.Main(m)) }
	_ = testMain
}
