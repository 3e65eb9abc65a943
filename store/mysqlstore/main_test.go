package mysqlstore_test

import (
	"os"
	"testing"

	"github.com/redo-go/redo/store/mysqlstore/mysqltest"
)

func TestMain(m *testing.M) { os.Exit(mysqltest.Main(m)) }
