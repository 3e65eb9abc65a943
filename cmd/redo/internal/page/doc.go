// Package page writes conformance reports as one HTML page, for people: a wiki, a pull request, a phone.
//
//	err := page.Write(file, report)                  // one server: its report
//	err := page.Write(file, ours, theirs, nextdoor)  // several: a matrix, servers × cases, and each one's report
//
// A page is complete. It loads nothing, by its own content security policy too, and is complete with scripts
// switched off: they only filter and open its parts. A verdict has a colour, a shape and a word. What a
// server has sent is shown as text, and characters that can't be seen, or that turn the text around them, by their
// numbers. The same reports make the same bytes.
package page
