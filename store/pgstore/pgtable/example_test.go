package pgtable_test

import (
	"fmt"

	"github.com/redo-go/redo/store/pgstore/pgtable"
)

// A template names the table's objects. Fill quotes the names.
func ExampleTable_Fill() {
	t := pgtable.Table{Package: "pgstore", Schema: "public", Name: "it's"}
	fmt.Println(t.Fill("CREATE INDEX {_expiry} ON {table} (expires_at)"))
	fmt.Println(t.Fill("SELECT nextval({'fence}::regclass)"))
	// Output:
	// CREATE INDEX "it's_expiry" ON "public"."it's" (expires_at)
	// SELECT nextval('"public"."it''s_fence"'::regclass)
}
