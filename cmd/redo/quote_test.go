package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWordsAreQuotedForAShell(t *testing.T) {
	for word, want := range map[string]string{
		"target.yaml": "target.yaml", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$HOME": "'$HOME'",
		"http://x:1/y?a={{case}}": "'http://x:1/y?a={{case}}'",
	} {
		require.Equal(t, want, quoteArg(word))
	}
}
