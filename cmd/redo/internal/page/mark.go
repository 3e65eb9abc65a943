package page

import "github.com/redo-go/redo/conformance"

// mark is the look of a verdict: a colour (by its class), a shape (by its symbol), and its own word.
type mark struct {
	Verdict conformance.Verdict
	Meaning string // for the legend
	Count   int    // how many results have it
}

// meanings are the legend's words, shorter than those of the package conformance.
var meanings = map[conformance.Verdict]string{
	conformance.Pass:         "the rule was seen to be kept",
	conformance.Fail:         "a MUST was seen to be broken",
	conformance.Warn:         "a SHOULD was seen to be broken",
	conformance.Info:         "a behaviour, recorded and not judged",
	conformance.Skip:         "the target does not declare a need of the case, or the rule does not apply",
	conformance.Blocked:      "a case that this one depends on did not pass",
	conformance.Inconclusive: "nothing could be shown; it is no pass",
	conformance.Harness:      "the run itself failed or was ended; it proves nothing about the target",
}

// marks returns the mark of each verdict, in the order of summaries.
func marks() []mark {
	var all []mark
	for _, v := range conformance.Verdicts() {
		all = append(all, mark{Verdict: v, Meaning: meanings[v]})
	}
	return all
}
