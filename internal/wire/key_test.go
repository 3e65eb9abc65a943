package wire

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseKey(t *testing.T) {
	long := strings.Repeat("k", MaxKey)
	for _, c := range []struct {
		rule  string
		lines []string
		want  string
	}{
		{"bare and quoted are the same key: bare", []string{`abc`}, "abc"},
		{"bare and quoted are the same key: quoted", []string{`"abc"`}, "abc"},
		{"escapes are undone", []string{`"a\"b\\c"`}, `a"b\c`},
		{"white space around the key is not part of it", []string{" \tabc\t "}, "abc"},
		{"inner spaces are part of a bare key", []string{"a b"}, "a b"},
		{"a bare key keeps its semicolons and backslashes", []string{`a;b\c`}, `a;b\c`},
		{
			"parameters of a string are ignored",
			[]string{`"k";x=1; y;*z="a\"b";t=%"caf%c3%a9";b=:YQ==:;c=?1;d=@12;e=-1.5`}, "k",
		},
		{"a parameter's name may hold digits and _-.*", []string{`"k";a1_b-c.d*=1`}, "k"},
		{"identical lines are one key", []string{"abc", `"abc"`, "abc"}, "abc"},
		{"an identical list is one key", []string{`abc, "abc" ,abc`}, "abc"},
		{"a comma inside the quotes is no list", []string{`"a,b", "a,b";x`}, "a,b"},
		{"the longest key is allowed", []string{long}, long},
		{"the longest key is allowed in quotes", []string{`"` + long + `"`}, long},
	} {
		t.Run(c.rule, func(t *testing.T) {
			got, err := ParseKey(c.lines)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestParseKeyRefuses(t *testing.T) {
	for _, c := range []struct {
		rule  string
		lines []string
		says  string
	}{
		{"an empty header", []string{""}, "it is empty"},
		{"a header of white space", []string{" \t"}, "it is empty"},
		{"an empty string", []string{`""`}, "it is empty"},
		{"a string that starts with a space", []string{`" a"`}, "starts with a space"},
		{"a string that ends with a space", []string{`"a "`}, "ends with a space"},
		{
			"256 bytes", []string{strings.Repeat("k", 256)},
			`"kkkkkkkkkkkkkkkk"... has 256 bytes, at most 255 are allowed`,
		},
		{"256 bytes in quotes", []string{`"` + strings.Repeat("k", 256) + `"`}, "has 256 bytes"},
		{"a control byte", []string{"a\x01b"}, "byte 1 is 0x01"},
		{"a tab inside", []string{"a\tb"}, "byte 1 is 0x09"},
		{"DEL", []string{"ab\x7f"}, "byte 2 is 0x7F"},
		{"a byte beyond ASCII", []string{"clé"}, "byte 2 is 0xC3"},
		{"a byte beyond ASCII in quotes", []string{`"clé"`}, "byte 3 is 0xC3"},
		{"two different lines", []string{"a", "b"}, `two different keys were sent, "a" and "b"`},
		{"two different members", []string{`"a", "b"`}, "two different keys"},
		{
			"two different keys that just fit a message", []string{"0123456789abcdef", "0123456789abcdefg"},
			`two different keys were sent, "0123456789abcdef" and "0123456789abcdef"...`,
		},
		{"an empty member", []string{"a,"}, "it is empty"},
		{"a missing closing quote", []string{`"abc`}, "closing quotation mark is missing"},
		{"a quote alone", []string{`"`}, "closing quotation mark is missing"},
		{"a closing quote that is escaped", []string{`"abc\"`}, "closing quotation mark is missing"},
		{"a backslash at the end", []string{`"abc\`}, "the backslash at byte 4 escapes neither"},
		{"an unknown escape", []string{`"a\nb"`}, "the backslash at byte 2 escapes neither"},
		{"a quote inside a bare key", []string{`ab"c`}, "byte 2 of a bare key is a quotation mark"},
		{"text after the quotes", []string{`"abc"d`}, "0x64 follows the closing quotation mark"},
		{"two strings without a comma", []string{`"abc" "abc"`}, "0x22 follows"},
		{"a parameter without a name", []string{`"k";`}, "not followed by the name"},
		{"a parameter whose name is upper case", []string{`"k";X=1`}, "not followed by the name"},
		{"a parameter without a value", []string{`"k";x=`}, "equals sign and no value"},
		{"a parameter without a value, before another", []string{`"k";x=;y=1`}, "equals sign and no value"},
		{"a parameter whose name starts with a digit", []string{`"k";1x=1`}, "not followed by the name"},
		{"a quotation mark in a parameter", []string{`"k";x=a"b`}, "the value of a parameter has the byte 0x22"},
		{"a parameter whose string does not end", []string{`"k";x="1`}, "closing quotation mark is missing"},
		{"a control byte in a parameter", []string{"\"k\";x=a\x02"}, "the value of a parameter has the byte 0x02"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			_, err := ParseKey(c.lines)
			require.ErrorIs(t, err, ErrKeyMalformed)
			require.ErrorContains(t, err, c.says)
			require.Less(t, len(err.Error()), 160, "a message never carries a whole key")
		})
	}
	t.Run("no header is missing and not malformed", func(t *testing.T) {
		_, err := ParseKey(nil)
		require.ErrorIs(t, err, ErrKeyMissing)
		require.NotErrorIs(t, err, ErrKeyMalformed)
	})
}

func TestNeedsQuotes(t *testing.T) {
	for c := byte(0x21); c <= 0x7E; c++ {
		key := "a" + string(c) + "b"
		got, err := ParseKey([]string{key})
		require.Equal(t, NeedsQuotes(key), err != nil || got != key, "key %q", key)
	}
}

func TestParseKeyAllocatesNothing(t *testing.T) {
	for _, lines := range [][]string{{"0190c5d4-1f2e-7abc-8def-0123456789ab"}, {`"quoted"`}, {"k", "k"}} {
		require.Zero(t, testing.AllocsPerRun(100, func() {
			if _, err := ParseKey(lines); err != nil {
				t.Error(err)
			}
		}), "lines %q", lines)
	}
}

func FuzzParseKey(f *testing.F) {
	for _, s := range []string{"abc", `"abc"`, `"a\"b\\"`, `"k";x=1`, "a, a", `"`, "\x00", "é", `"k";*a=%"x"`} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, lines := range [][]string{{a}, {a, b}, {a + "," + b}} {
			key, err := ParseKey(lines)
			if err == nil {
				require.NoError(t, CheckKey(key), "a parsed key is valid")
			} else {
				require.ErrorIs(t, err, ErrKeyMalformed)
				require.Empty(t, key)
			}
		}
		if CheckKey(a) != nil {
			return
		}
		key, err := ParseKey([]string{QuoteKey(a)})
		require.NoError(t, err)
		require.Equal(t, a, key)
		if !NeedsQuotes(a) {
			key, err = ParseKey([]string{a})
			require.NoError(t, err)
			require.Equal(t, a, key)
		}
	})
}
