package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCutKeepsCharactersWhole(t *testing.T) {
	for _, c := range []struct {
		text  string
		limit int
		want  string
	}{
		{"", 0, ""}, {"abc", 3, "abc"}, {"abc", 2, "ab"}, {"aé", 3, "aé"}, {"aé", 2, "a"}, {"é", 1, ""},
		{"😀b", 4, "😀"}, {"😀b", 3, ""}, {"\x80\x80", 1, ""},
	} {
		require.Equal(t, c.want, Cut(c.text, c.limit), "%q, %d", c.text, c.limit)
	}
}

func TestClipReturnsTextThatAStoreAccepts(t *testing.T) {
	require.Equal(t, "plain é", Clip("plain é", 100))
	require.Equal(t, "a\uFFFDb\uFFFDc", Clip("a\x00b\xffc", 100))
	require.Equal(t, "a", Clip("a\xff", 3), "a replaced byte counts with its new length")
}
