package wire

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestQuota(t *testing.T) {
	for _, c := range []struct {
		name    string
		lines   []string
		limited bool
		left    int
		reset   time.Duration
		ok      bool
	}{
		{"no header", nil, false, 0, 0, false},
		{"one quota", []string{`"default";r=7;t=30`}, false, 7, 30 * time.Second, true},
		{"the one with the least left", []string{`"hour";r=70;t=300, "second";r=2;t=1`}, false, 2, time.Second, true},
		{"the longer one of two", []string{`a;r=0;t=1`, `b;r=0;t=9`}, false, 0, 9 * time.Second, true},
		{"the longer one of two, first", []string{`a;r=0;t=9`, `b;r=0;t=1`}, false, 0, 9 * time.Second, true},
		{"no time", []string{`"default";r=7`}, false, 0, 0, false},
		{"no number", []string{`"default";r=x;t=1`}, false, 0, 0, false},
		{"a negative number", []string{`"default";r=-1;t=1`}, false, 0, 0, false},
		{"a number beyond an int32", []string{`a;r=9000000000000;t=1`}, false, 1<<31 - 1, time.Second, true},
		{"a year", []string{`a;r=0;t=31536000`}, false, 0, 365 * 24 * time.Hour, true},
		{"a date in seconds", []string{`a;r=0;t=1795000000`}, false, 0, 0, false},
		{"a date in seconds beside a quota", []string{`a;r=0;t=1795000000, b;r=1;t=9`}, false, 1, 9 * time.Second, true},
		{"a refusal until a date in seconds", []string{`a;r=0;t=1795000000`}, true, 0, 1795000000 * time.Second, false},
		{"a syntax error", []string{`"default";r=7;t=30`, `"default`}, false, 7, 30 * time.Second, false},
		{"a refusal", []string{`"default";r=7;t=30, "other";r=0;t=5`}, true, 0, 5 * time.Second, true},
		{"a refusal without a wait", nil, true, 0, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			left, reset, ok := Quota(http.Header{"Ratelimit": c.lines}, time.Now(), c.limited)
			require.Equal(t, c.ok, ok)
			require.Equal(t, c.left, left)
			require.Equal(t, c.reset, reset)
		})
	}
}
