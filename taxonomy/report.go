package taxonomy

import (
	"net/http"
	"strings"
)

const (
	headerErrorCode = "Error-Code"
	// headerErrorType carries the error of AWS's REST services: restJson1, "operation error serialization".
	headerErrorType = "X-Amzn-Errortype"

	// maxCode is the length of the longest accepted code. A longer one is ignored.
	maxCode = 128
	// maxWord is the length of the longest word that is looked up, a type URI for example.
	maxWord = 512
)

// A report holds the server's own statements about the error. Its zero value is a server that reported nothing.
type report struct {
	// code is empty when no word of the response has a known meaning.
	code Code
	// retryable is a problem document's member of that name. It is nil when absent.
	retryable *bool
	// unsettled is true when a word without a code names an operation that is running, was repeated, or has an
	// uncertain outcome. Such a response is never evidence that nothing was applied.
	unsettled bool
}

// readReport reads the server's words in the headers and in the body. A never-retried code wins over any other,
// then a known code over one of which only the family is known, then a header over the body.
func readReport(a Answer) report {
	r := reader{codes: a.Codes}
	r.readBody(a.Header, a.Body)
	for _, name := range [...]string{headerErrorType, headerErrorCode} {
		word := strings.TrimSpace(a.Header.Get(name))
		c := r.lookup(word)
		if rank(c) >= rank(r.code) {
			r.code = c
		}
		r.unsettled = r.unsettled || !c.known() && isUnsettled(word)
	}
	return r.report
}

// A reader collects the report of one response. codes are the provider's own words; nil means none.
type reader struct {
	codes map[string]Code
	report
}

// read takes one word of the response into account. The first word with a known code wins, since the callers
// read the more exact members first.
func (r *reader) read(word string) {
	c := r.lookup(word)
	if rank(c) > rank(r.code) && !r.code.known() {
		r.code = c
	}
	r.unsettled = r.unsettled || !c.known() && isUnsettled(word)
}

// lookup returns the code of a server's word, or "" when it has none. The provider's own words win over the
// shared table. In each, the whole word wins over its short form. A CALLER code is never accepted from a server.
func (r *reader) lookup(word string) Code {
	if word == "" || len(word) > maxWord {
		return ""
	}
	spellings := [...]string{word, shortForm(word)}
	for _, spelling := range spellings {
		if c, ok := r.codes[spelling]; ok {
			return accepted(c)
		}
	}
	for _, spelling := range spellings {
		if c, ok := sharedCodes[spelling]; ok {
			return c
		}
	}
	return accepted(Code(word))
}

// accepted returns c if a server may report it, else "".
func accepted(c Code) Code {
	if isCode(c) && c.Family() != Caller {
		return c
	}
	return ""
}

// shortForm returns the last segment of a type URI, and the bare name of an AWS error, which may have a namespace
// before "#" and a URL after ":". Any other word is returned unchanged.
func shortForm(word string) string {
	if i := strings.IndexByte(word, ':'); i >= 0 && !strings.HasPrefix(word[i:], "://") {
		word = word[:i]
	}
	word = strings.TrimRight(word, "/")
	return word[strings.LastIndexAny(word, "/#")+1:]
}

func rank(c Code) int {
	switch {
	case c == "":
		return 0
	case c.neverRetried():
		return 3
	case c.known():
		return 2
	default:
		return 1
	}
}

// isCode reports whether c is FAMILY.name[.detail]… with a known family and names of ASCII letters, digits,
// hyphens and underscores.
func isCode(c Code) bool {
	if len(c) > maxCode {
		return false
	}
	family, name, _ := strings.Cut(string(c), ".")
	if _, ok := families[Code(family)]; !ok {
		return false
	}
	// A bare family has an empty name, which splits into one empty part.
	for part := range strings.SplitSeq(name, ".") {
		if part == "" {
			return false
		}
		for _, b := range []byte(part) {
			if !isAlphanumeric(b) && b != '_' && b != '-' {
				return false
			}
		}
	}
	return true
}

func isAlphanumeric(b byte) bool {
	return b|0x20 >= 'a' && b|0x20 <= 'z' || b >= '0' && b <= '9'
}

// unsettledPhrases are the parts of a word that contradict "nothing was applied". They only ever withdraw that
// claim; no code and no class is derived from them.
var unsettledPhrases = [...]string{
	" uncertain ", " indeterminate ", " in flight ", " inflight ", " in progress ", " inprogress ", " in process ",
	" being processed ", " still processing ", " still running ", " pending ", " already ",
	" duplicate ", " duplicated ", " outcome unknown ", " state unknown ", " status unknown ", " result unknown ",
	" unknown outcome ", " unknown state ", " unknown status ", " unknown result ",
}

// isUnsettled reports whether an unrecognized word names an operation that is running, was repeated, or has an
// uncertain outcome. It compares whole words: "TransferInProgress" is unsettled, "login_process_failed" is not.
func isUnsettled(word string) bool {
	if word == "" || len(word) > maxWord {
		return false
	}
	spaced := separate(shortForm(word))
	for _, phrase := range unsettledPhrases {
		if strings.Contains(spaced, phrase) {
			return true
		}
	}
	return spaced == " processing "
}

// separate returns a word in lower case with one space before, between and after its parts. Parts end at every
// byte that is no ASCII letter or digit, and before a capital that follows a lower-case letter.
func separate(word string) string {
	var b strings.Builder
	b.Grow(len(word) + 8)
	b.WriteByte(' ')
	var last byte = ' '
	for _, c := range []byte(word) {
		upper := c >= 'A' && c <= 'Z'
		switch {
		case !isAlphanumeric(c):
			c = ' '
		case upper && last >= 'a' && last <= 'z':
			b.WriteByte(' ')
		}
		if c == ' ' && last == ' ' {
			continue
		}
		last = c
		if upper {
			c |= 0x20
		}
		b.WriteByte(c)
	}
	if last != ' ' {
		b.WriteByte(' ')
	}
	return b.String()
}

// headerCode returns the code that a status has together with a header that documents it, or "".
func headerCode(status int, h http.Header) Code {
	switch {
	case status == http.StatusForbidden && (h.Get("X-Ratelimit-Remaining") == "0" || h.Get("Retry-After") != ""):
		// GitHub reports its primary and secondary rate limits by a 403: docs.github.com, "Rate limits for the
		// REST API". A missing permission has neither header.
		return RateLimited
	case status == http.StatusPreconditionFailed && strings.EqualFold(h.Get("Repeatability-Result"), "rejected"):
		// OASIS Repeatable Requests 1.0: the request was first sent before the server's tracked window, so
		// the server can't know whether it ran.
		return KeyExpired
	}
	return ""
}
