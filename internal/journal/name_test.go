package journal_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/internal/journal"
)

func TestCheckName(t *testing.T) {
	for _, c := range []struct{ name, operation, want string }{
		{"one byte", "a", ""},
		{"any text", "refund:ch_9ab:1000 – Müller/№ 1 ✓", ""},
		{"spaces", "  ", ""},
		{"the longest", strings.Repeat("n", journal.MaxName), ""},
		{"empty", "", "redo: the operation's name is empty"},
		{
			"too long", strings.Repeat("n", journal.MaxName+1),
			`redo: the operation's name has 513 bytes, at most 512 are allowed: "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"…`,
		},
		{
			"too long in bytes", strings.Repeat("ü", 257),
			`redo: the operation's name has 514 bytes, at most 512 are allowed: "üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü"…`,
		},
		{"not UTF-8", "a\xff", `redo: the operation's name "a\xff" is not UTF-8`},
		{"a line break", "a\nb", `redo: the operation's name "a\nb" has the control character U+000A at byte 1`},
		{"a zero byte", "\x00", `redo: the operation's name "\x00" has the control character U+0000 at byte 0`},
		{"DEL", "ü\x7f", `redo: the operation's name "ü\x7f" has the control character U+007F at byte 2`},
		{
			"a control character beyond ASCII", "a\u0085",
			`redo: the operation's name "a\u0085" has the control character U+0085 at byte 1`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := journal.CheckName(c.operation); c.want == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, c.want)
			}
		})
	}
}
