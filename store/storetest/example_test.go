package storetest_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/redo-go/redo/store/storetest"
)

// Each case is data: its name is a rule of the contract in short, and its rule names the protection.
func ExampleCases() {
	cases := storetest.Cases()
	i := slices.IndexFunc(cases, func(c storetest.Case) bool { return c.Name == "stale owner cannot release" })
	rule, why, _ := strings.Cut(cases[i].Rule, ": ")
	fmt.Println(rule)
	fmt.Println(why)
	// Output:
	// Release compares and sets on the fence
	// an owner whose record was taken over would otherwise let a third one run beside the second.
}
