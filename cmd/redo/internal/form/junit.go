package form

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/redo-go/redo/conformance"
)

// The elements of JUnit's reports that build servers agree on.
type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name       string          `xml:"name,attr"`
		Tests      int             `xml:"tests,attr"`
		Failures   int             `xml:"failures,attr"`
		Errors     int             `xml:"errors,attr"`
		Skipped    int             `xml:"skipped,attr"`
		Time       string          `xml:"time,attr"`
		Timestamp  string          `xml:"timestamp,attr"`
		Properties []junitProperty `xml:"properties>property"`
		Cases      []junitCase     `xml:"testcase"`
		Stopped    string          `xml:"system-err,omitempty"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Time    string        `xml:"time,attr"`
		Failure *junitProblem `xml:"failure"`
		Error   *junitProblem `xml:"error"`
		Skipped *junitProblem `xml:"skipped"`
		Out     string        `xml:"system-out,omitempty"`
	}
	junitProblem struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// JUnit writes each report as a test suite. A case is a failure if it keeps the target from conforming, an error if the
// run itself failed, and skipped if it could not be judged. The output of a case holds a warning that does not count.
func JUnit(w io.Writer, o Options, reports ...conformance.Report) error {
	var all junitSuites
	for _, r := range reports {
		all.Suites = append(all.Suites, suite(r, o))
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func suite(r conformance.Report, o Options) junitSuite {
	s := junitSuite{
		Name: "redo check " + r.Subject(), Time: seconds(r.Micros), Timestamp: r.Started.Format(time.RFC3339),
		Properties: []junitProperty{{"base_url", r.BaseURL}, {"profile", r.Profile}, {"seed", fmt.Sprint(r.Seed)}},
	}
	if r.Stopped != nil {
		s.Stopped = r.Stopped.Reason + ": " + r.Stopped.Message
	}
	for _, res := range r.Results {
		c := junitCase{Class: "redo." + group(res.Slug), Name: res.Slug, Time: seconds(res.Micros)}
		problem := &junitProblem{Message: res.Brief(), Type: string(res.Verdict)}
		switch {
		case res.Failed(o.Strict):
			problem.Text = o.text().Evidence(res)
			c.Failure = problem
			s.Failures++
		case res.Verdict == conformance.Harness:
			c.Error = problem
			s.Errors++
		case res.Verdict == conformance.Skip, res.Verdict == conformance.Blocked,
			res.Verdict == conformance.Inconclusive:
			problem.Message = string(res.Verdict) + ": " + problem.Message
			problem.Type = ""
			c.Skipped = problem
			s.Skipped++
		case res.Verdict != conformance.Pass:
			c.Out = o.text().Evidence(res)
		}
		s.Cases = append(s.Cases, c)
	}
	s.Tests = len(s.Cases)
	return s
}

func group(slug string) string {
	before, _, _ := strings.Cut(slug, "-")
	return before
}

func seconds(micros int64) string { return fmt.Sprintf("%.6f", float64(micros)/1e6) }
