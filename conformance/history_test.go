package conformance

import (
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// seen makes an op of a history from instants in milliseconds.
func seen(start, end, payload int, what string) op {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	o := op{payload: payload, start: at(start), end: at(end), answer: &answer{status: http.StatusConflict}}
	switch what {
	case "ok":
		o.success, o.answer = true, &answer{status: http.StatusCreated, body: []byte("1")}
	case "other":
		o.success, o.answer = true, &answer{status: http.StatusCreated, body: []byte("2")}
	case "in flight":
		o.inFlight = true
	case "mismatch":
		o.mismatch = true
	case "either":
		o.inFlight, o.mismatch = true, true
	}
	return o
}

func TestHistories(t *testing.T) {
	for _, c := range []struct {
		rule string
		ops  []op
		want string // the beginning of the contradiction
	}{
		{"one request", []op{seen(0, 9, 0, "ok")}, ""},
		{"a replay", []op{seen(0, 9, 0, "ok"), seen(10, 12, 0, "ok")}, ""},
		{"two runs", []op{seen(0, 9, 0, "ok"), seen(10, 12, 0, "other")}, "two successes differ"},
		{"both payloads", []op{seen(0, 9, 0, "ok"), seen(10, 12, 1, "ok")}, "both payloads succeeded"},
		{"nobody", []op{seen(0, 9, 0, "in flight")}, "no request succeeded"},
		{"in flight while the first one runs", []op{seen(0, 9, 0, "ok"), seen(1, 2, 0, "in flight")}, ""},
		{"in flight that began while the first one ran", []op{seen(0, 9, 0, "ok"), seen(8, 20, 0, "in flight")}, ""},
		{"in flight after the first one's success was seen", []op{seen(0, 9, 0, "ok"), seen(10, 20, 0, "in flight")},
			"refused as in flight"},
		{"in flight after another one's success was seen", []op{seen(0, 30, 0, "ok"), seen(2, 9, 0, "ok"),
			seen(10, 20, 0, "in flight")}, "refused as in flight"},
		{"in flight before anything had begun", []op{seen(5, 9, 0, "ok"), seen(1, 2, 0, "in flight")},
			"409 without a body, before any request"},
		{"a mismatch while the first one runs", []op{seen(0, 9, 0, "ok"), seen(1, 2, 1, "mismatch")}, ""},
		{"a mismatch long after", []op{seen(0, 9, 0, "ok"), seen(100, 200, 1, "mismatch")}, ""},
		{"a mismatch before anything had begun", []op{seen(5, 9, 0, "ok"), seen(1, 2, 1, "mismatch")},
			"409 without a body, before any request"},
		{"a mismatch with the right payload", []op{seen(0, 9, 0, "ok"), seen(10, 20, 0, "mismatch")},
			"refused as another payload"},
		{"another payload in flight", []op{seen(0, 9, 0, "ok"), seen(1, 2, 1, "in flight")}, ""},
		{"another payload in flight, too late", []op{seen(0, 9, 0, "ok"), seen(10, 20, 1, "in flight")},
			"refused as in flight"},
		{"a refusal of either kind, long after, with another payload", []op{seen(0, 9, 0, "ok"),
			seen(10, 20, 1, "either")},
			""},
		{"a refusal of either kind, long after, with the same payload", []op{seen(0, 9, 0, "ok"),
			seen(10, 20, 0, "either")},
			"refused as in flight"},
	} {
		got := contradiction(c.ops, same)
		if c.want == "" {
			require.Empty(t, got, c.rule)
		} else {
			require.Regexp(t, "^"+c.want, got, c.rule)
		}
	}
}

// explained tries all instants, as the definition requires. One success is the writer, and its instants R and C are within
// its request. Each other request has an instant d within it. All bounds are whole numbers, so whole instants are enough.
func explained(ops []op, horizon int) bool {
	ms := func(t time.Time) int { return int(t.UnixMilli()) }
	for w, writer := range ops {
		if !writer.success {
			continue
		}
		for r := ms(writer.start); r <= ms(writer.end); r++ {
			for c := r; c <= ms(writer.end); c++ {
				fits := true
				for i, o := range ops {
					if i == w {
						continue
					}
					decided := false
					for d := ms(o.start); d <= ms(o.end) && d <= horizon; d++ {
						decided = decided ||
							o.success && o.payload == writer.payload && same(o.answer, writer.answer) && c <= d ||
							o.inFlight && r <= d && d <= c ||
							o.mismatch && o.payload != writer.payload && r <= d
					}
					fits = fits && decided
				}
				if fits {
					return true
				}
			}
		}
	}
	return false
}

func TestValidatorAgreesWithASearchOfAllOrders(t *testing.T) {
	const horizon = 8
	random := rand.New(rand.NewPCG(1, 2))
	whats := []string{"ok", "ok", "ok", "other", "in flight", "in flight", "mismatch", "either"}
	yes := 0
	for range 20_000 {
		var ops []op
		for range 1 + random.IntN(4) {
			start := random.IntN(horizon)
			payload := 0
			if random.IntN(3) == 0 {
				payload = 1
			}
			ops = append(ops, seen(start, start+random.IntN(horizon-start+1), payload, whats[random.IntN(len(whats))]))
		}
		want := explained(ops, horizon)
		require.Equal(t, want, contradiction(ops, same) == "", "%+v", ops)
		if want {
			yes++
		}
	}
	require.Greater(t, yes, 3000) // both results occur often
	require.Less(t, yes, 17_000)
}
