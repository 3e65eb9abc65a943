package wire

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHint(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	h := func(kv ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(kv); i += 2 {
			h.Set(kv[i], kv[i+1])
		}
		return h
	}
	cases := []struct {
		name    string
		header  http.Header
		limited bool
		want    time.Duration
		ok      bool
	}{
		{"no header", nil, true, 0, false},
		{"seconds", h("Retry-After", "7"), false, 7 * time.Second, true},
		{"seconds with spaces", h("Retry-After", " 7 "), false, 7 * time.Second, true},
		{"zero means immediately", h("Retry-After", "0"), false, 0, true},
		{
			"milliseconds win over seconds", h("Retry-After", "7", "Retry-After-Ms", "250"), false,
			250 * time.Millisecond, true,
		},
		{
			"garbage milliseconds fall back to seconds", h("Retry-After", "7", "Retry-After-Ms", "soon"), false,
			7 * time.Second, true,
		},
		{"IMF-fixdate", h("Retry-After", "Sun, 01 Mar 2026 12:00:09 GMT"), false, 9 * time.Second, true},
		{"RFC 850 date", h("Retry-After", "Sunday, 01-Mar-26 12:00:09 GMT"), false, 9 * time.Second, true},
		{"asctime date", h("Retry-After", "Sun Mar  1 12:00:09 2026"), false, 9 * time.Second, true},
		{
			"date is measured from the response's own clock",
			h("Retry-After", "Sun, 01 Mar 2026 13:00:09 GMT", "Date", "Sun, 01 Mar 2026 13:00:00 GMT"), false,
			9 * time.Second, true,
		},
		{"date of this second", h("Retry-After", "Sun, 01 Mar 2026 12:00:00 GMT"), false, 0, true},
		{"date that has passed", h("Retry-After", "Sun, 01 Mar 2026 11:59:59 GMT"), false, 0, false},
		{"date beyond any wait", h("Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT"), false, 0, false},
		{"negative", h("Retry-After", "-1"), false, 0, false},
		{"explicit plus", h("Retry-After", "+1"), false, 0, false},
		{"garbage", h("Retry-After", "soon"), false, 0, false},
		{"fraction", h("Retry-After", "1.5"), false, 1500 * time.Millisecond, true},
		{"Shopify's seconds", h("Retry-After", "2.0"), true, 2 * time.Second, true},
		{"fraction that is rounded up", h("Retry-After-Ms", "0.0000001"), true, 1, true},
		{"fraction without digits", h("Retry-After", "1."), false, 0, false},
		{"fraction without seconds", h("Retry-After", ".5"), false, 0, false},
		{"fraction of garbage", h("Retry-After", "1.5s"), false, 0, false},
		{"fraction with a sign", h("Retry-After", "1.-5"), false, 0, false},
		{"fraction with an exponent", h("Retry-After", "1.5e9"), false, 0, false},
		{"fraction of a fraction", h("Retry-After", "1.5.5"), false, 0, false},
		{"fraction beyond the largest", h("Retry-After", "9223372036.9"), false, 0, false},
		{"overflows a duration", h("Retry-After", "9223372036854775807"), false, 0, false},
		{"overflows an integer", h("Retry-After", "92233720368547758070"), false, 0, false},
		{"largest that fits", h("Retry-After", "9223372036"), false, 9223372036 * time.Second, true},
		{"passed date falls back to reset",
			h("Retry-After", "Sun, 01 Mar 2026 11:59:59 GMT", "RateLimit-Reset", "30"), true, 30 * time.Second, true},
		{"reset is no hint unless limited", h("RateLimit-Reset", "30"), false, 0, false},
		{"reset in seconds", h("RateLimit-Reset", "30"), true, 30 * time.Second, true},
		{"X- reset in seconds", h("X-RateLimit-Reset", "30"), true, 30 * time.Second, true},
		{"X- reset as an epoch", h("X-RateLimit-Reset", "1772366430"), true, 30 * time.Second, true},
		{"X- reset as the least epoch, which has passed", h("X-RateLimit-Reset", "1000000000"), true, 0, false},
		{"X- reset as the longest wait", h("X-RateLimit-Reset", "999999999"), true, 999999999 * time.Second, true},
		{"X- reset as a passed epoch", h("X-RateLimit-Reset", "1772366399"), true, 0, false},
		{"GitLab's reset, an epoch", h("RateLimit-Reset", "1772366430"), true, 30 * time.Second, true},
		{"reset as a passed epoch", h("RateLimit-Reset", "1772366399"), true, 0, false},
		{"passed epoch falls back to X- reset",
			h("RateLimit-Reset", "1772366399", "X-RateLimit-Reset", "30"), true, 30 * time.Second, true},
		{"Discord's reset, an epoch with a fraction", h("X-RateLimit-Reset", "1772366430.123"), true,
			30*time.Second + 123*time.Millisecond, true},
		{"quota used up", h("RateLimit", `"default";r=0;t=1`), true, time.Second, true},
		{"quota is no hint unless limited", h("RateLimit", `"default";r=0;t=1`), false, 0, false},
		{"quota restored immediately", h("RateLimit", `"default";r=0;t=0`), true, 0, true},
		{"quota left", h("RateLimit", `"default";r=1;t=9`), true, 0, false},
		{"quota of an unknown wait", h("RateLimit", `"default";r=0`), true, 0, false},
		{"quota of unknown size", h("RateLimit", `"default";t=9`), true, 0, false},
		{"longest wait of the quotas used up",
			h("RateLimit", `"a";r=0;t=2, "day";r=5;t=90, "min";t=7;r=0,"hour";r=0;t=3`), true, 7 * time.Second, true},
		{"quotas on several lines",
			http.Header{"Ratelimit": {`"a";r=0;t=2`, "", `"b";r=0;t=4`}}, true, 4 * time.Second, true},
		{"other parameters of a quota",
			h("RateLimit", `"a;r=9;t=9";q=8;  r=0;pk=:cGE=:;b;s="r=1,t=8";d=%"t=3";t=5`), true, 5 * time.Second, true},
		{"quota named by a token", h("RateLimit", " default;r=0;t=1 "), true, time.Second, true},
		{"last of equal parameters", h("RateLimit", `"a";r=0;t=1;t=2;r=3;r=0`), true, 2 * time.Second, true},
		{"largest quota wait that fits", h("RateLimit", `"a";r=0;t=9223372036`), true, 9223372036 * time.Second, true},
		{"quota wait overflows a duration", h("RateLimit", `"a";r=0;t=9223372037`), true, 0, false},
		{"quota wait overflows an integer", h("RateLimit", `"a";r=0;t=92233720368547758070`), true, 0, false},
		{"overflow beside a good wait", h("RateLimit", `"a";r=0;t=9223372037,"b";r=0;t=1`), true, time.Second, true},
		{"negative quota wait", h("RateLimit", `"a";r=0;t=-1`), true, 0, false},
		{"negative quota", h("RateLimit", `"a";r=-1;t=1`), true, 0, false},
		{"quota wait with a fraction", h("RateLimit", `"a";r=0;t=1.5`), true, 0, false},
		{"quota wait of another type", h("RateLimit", `"a";r=0;t="1"`), true, 0, false},
		{"quota parameter without a value", h("RateLimit", `"a";r;t=1`), true, 0, false},
		{"quota without a name", h("RateLimit", `;r=0;t=1`), true, 0, false},
		{"quota whose name is garbage", h("RateLimit", `?;r=0;t=1`), true, 0, false},
		{"garbage quota", h("RateLimit", `soon?`), true, 0, false},
		{"quota of an earlier draft", h("RateLimit", `limit=10, remaining=0, reset=7`), true, 0, false},
		{"syntax error spoils the header", h("RateLimit", `"a";r=0;t=1,"b`), true, 0, false},
		{"trailing comma spoils the header", h("RateLimit", `"a";r=0;t=1,`), true, 0, false},
		{"missing comma spoils the header", h("RateLimit", `"a";r=0;t=1 "b"`), true, 0, false},
		{"empty quota", h("RateLimit", ""), true, 0, false},
		{"garbage quota falls back to reset",
			h("RateLimit", "?", "RateLimit-Reset", "30"), true, 30 * time.Second, true},
		{"quota wins over reset", h("RateLimit", `"a";r=0;t=1`, "RateLimit-Reset", "30"), true, time.Second, true},
		{"Retry-After wins over a quota", h("RateLimit", `"a";r=0;t=9`, "Retry-After", "1"), true, time.Second, true},
		{"Retry-After wins over reset", h("Retry-After", "1", "RateLimit-Reset", "30"), true, time.Second, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, ok := Hint(c.header, now, c.limited)
			require.Equal(t, c.ok, ok)
			require.Equal(t, c.want, got)
		})
	}
}

func FuzzHint(f *testing.F) {
	for _, s := range []string{"1", "-1", "9223372036854775807", "Sun, 01 Mar 2026 12:00:09 GMT", "", "\x00",
		`"default";r=0;t=1`, `"a";r=0;t=9223372037, b;pk=:cA==:;r=0;t=-2`, `"a\"";d=%"x";r=0;t=1,`} {
		f.Add(s, s, s, s)
	}
	f.Fuzz(func(t *testing.T, a, b, c, e string) {
		h := http.Header{"Retry-After": {a}, "X-Ratelimit-Reset": {b}, "Retry-After-Ms": {c}, "Ratelimit": {e}}
		if d, ok := Hint(h, time.Unix(0, 0), true); d < 0 || (!ok && d != 0) {
			t.Fatalf("Hint = %v, %v", d, ok)
		}
		alone := http.Header{"Ratelimit": {e}}
		if d, ok := Hint(alone, time.Unix(0, 0), true); d < 0 || d%time.Second != 0 || (!ok && d != 0) {
			t.Fatalf("Hint(%q) = %v, %v", e, d, ok)
		}
		if d, ok := Hint(alone, time.Unix(0, 0), false); ok {
			t.Fatalf("Hint(%q) = %v unless limited", e, d)
		}
	})
}

func TestRetryAfterIsWholeSecondsAndNeverZero(t *testing.T) {
	for wait, want := range map[time.Duration]string{
		-time.Hour: "1", 0: "1", time.Millisecond: "1", time.Second: "1", time.Second + 1: "2", 90 * time.Second: "90",
	} {
		require.Equal(t, want, RetryAfter(wait), "%v", wait)
	}
}
