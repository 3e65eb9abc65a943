package page_test

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/redo-go/redo/cmd/redo/internal/page"
	"github.com/redo-go/redo/conformance"
)

// One report makes a report's page, two make a matrix with a column for each.
func ExampleWrite() {
	ours := conformance.Report{
		Schema: conformance.Schema, Target: "ours", BaseURL: "http://ours.example", Profile: "redo",
		Results: []conformance.Result{{Slug: "replay-effect", Level: conformance.Must, Verdict: conformance.Pass,
			Rule: "One key, one effect: E=1."}},
	}
	theirs := ours
	theirs.Target = "theirs <b>new</b>"
	theirs.Results = []conformance.Result{{Slug: "replay-effect", Level: conformance.Must, Verdict: conformance.Fail,
		Rule: "One key, one effect: E=1."}}

	var one, both bytes.Buffer
	fmt.Println(page.Write(&one, theirs), page.Write(&both, ours, theirs))
	fmt.Println(strings.Contains(one.String(), "Does not conform"))
	fmt.Println(strings.Contains(one.String(), "<h1>theirs &lt;b&gt;new&lt;/b&gt;</h1>"))
	fmt.Println(strings.Contains(both.String(), "<h1>2 servers, 1 case</h1>"))
	// Output:
	// <nil> <nil>
	// true
	// true
	// true
}
