// Package nearest finds the name that a typing error meant.
package nearest

import "github.com/agext/levenshtein"

// DidYouMean returns " (did you mean NAME?)" for the name that is nearest to the typed one. It returns "" if no name is
// near: more than a third of its letters, and more than two, are wrong.
func DidYouMean(typed string, names []string) string {
	best, least := "", max(2, len(typed)/3)+1
	for _, name := range names {
		if d := levenshtein.Distance(typed, name, nil); d < least {
			best, least = name, d
		}
	}
	if best == "" {
		return ""
	}
	return " (did you mean " + best + "?)"
}
