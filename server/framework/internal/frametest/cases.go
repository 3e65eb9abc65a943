package frametest

import (
	"encoding/json"
	"net/http"

	"github.com/stretchr/testify/require"
)

// A testCase is one rule. wrong runs it against the wrong wiring.
type testCase struct {
	rule    string
	run     func(c *client)
	skip    func(w Wiring) bool
	wrong   bool
	refusal bool // the middleware has the wiring's Refusal
}

var cases = []testCase{
	{rule: "a repeated request is replayed", run: func(c *client) {
		first := c.post("/charges/1", "k", "alice")
		require.Equal(c, http.StatusCreated, first.status, first.body)
		require.True(c, first.stored())
		require.JSONEq(c, `{"charge":"1"}`, first.body)
		again := c.post("/charges/1", "k", "alice")
		c.same(first, again)
		require.Equal(c, "ch_1", again.header.Get("X-Charge"))
		c.effects("charge", 1)
	}},
	{rule: "a key belongs to the route's pattern", run: func(c *client) {
		require.Equal(c, http.StatusCreated, c.post("/charges/1", "k", "alice").status)
		other := c.post("/charges/2", "k", "alice")
		require.Equal(c, http.StatusConflict, other.status)
		require.Equal(c, "CONFLICT.idempotency.payload_mismatch", other.header.Get("Error-Code"))
		require.Equal(c, http.StatusCreated, c.post("/refunds", "k", "alice").status)
		c.effects("charge", 1)
		c.effects("refund", 1)
	}},
	{rule: "a key belongs to its principal", run: func(c *client) {
		alice, bob := c.post("/charges/1", "k", "alice"), c.post("/charges/1", "k", "bob")
		require.Equal(c, http.StatusCreated, alice.status)
		require.True(c, bob.stored(), "%d %s", bob.status, bob.body)
		c.effects("charge", 2)
		require.Equal(c, http.StatusUnauthorized, c.post("/charges/1", "k", "").status)
		c.effects("charge", 2)
	}},
	{rule: "a terminal error of the framework is stored", run: func(c *client) {
		first := c.post("/invalid", "k", "alice")
		require.Equal(c, http.StatusUnprocessableEntity, first.status, first.body)
		c.same(first, c.post("/invalid", "k", "alice"))
		c.effects("invalid", 1)
	}},
	{rule: "a transient error of the framework releases the key", run: func(c *client) {
		for range 2 {
			r := c.post("/unavailable", "k", "alice")
			require.Equal(c, http.StatusServiceUnavailable, r.status, r.body)
			require.False(c, r.replayed())
		}
		c.effects("unavailable", 2)
	}},
	{rule: "a recovered panic is a 500 and releases the key", run: func(c *client) {
		for range 2 {
			r := c.post("/panic", "k", "alice")
			require.Equal(c, http.StatusInternalServerError, r.status, r.body)
			require.False(c, r.replayed())
		}
		c.effects("panic", 2)
	}},
	{rule: "a streamed response is replayed whole", run: func(c *client) {
		first := c.post("/stream", "k", "alice")
		require.Equal(c, http.StatusOK, first.status)
		require.Equal(c, "one\ntwo\nthree\n", first.body)
		c.same(first, c.post("/stream", "k", "alice"))
		c.effects("stream", 1)
	}},
	{rule: "a route that does not exist is not found", run: func(c *client) {
		for range 2 {
			require.Equal(c, http.StatusNotFound, c.post("/nowhere", "k", "alice").status)
		}
	}},
	{rule: "an informational response is sent, and is not the response", run: func(c *client) {
		first := c.post("/hints", "k", "alice")
		require.Equal(c, []string{"103 </a.css>"}, first.hints)
		require.Equal(c, http.StatusCreated, first.status, first.body)
		require.True(c, first.stored())
		require.JSONEq(c, `{"hints":true}`, first.body)
		again := c.post("/hints", "k", "alice")
		c.same(first, again)
		require.Empty(c, again.hints)
		c.effects("hints", 1)
	}},
	{rule: "a duplicate of a running request is in flight", run: func(c *client) {
		type result struct {
			reply
			err error
		}
		done := make(chan result, 1)
		go func() {
			r, err := c.send("/slow", "k", "alice")
			done <- result{r, err}
		}()
		<-c.app.entered
		duplicate := c.post("/slow", "k", "alice")
		close(c.app.release)
		require.Equal(c, http.StatusConflict, duplicate.status)
		require.Equal(c, "CONFLICT.idempotency.in_flight", duplicate.header.Get("Error-Code"))
		first := <-done
		require.NoError(c, first.err)
		require.Equal(c, http.StatusCreated, first.status)
		c.same(first.reply, c.post("/slow", "k", "alice"))
		c.effects("slow", 1)
	}},
	{rule: "a handler that writes nothing is an error, and never runs again", run: func(c *client) {
		first, again := c.post("/silent", "k", "alice"), c.post("/silent", "k", "alice")
		require.GreaterOrEqual(c, first.status, 400, "an empty success hides a mistake")
		require.GreaterOrEqual(c, again.status, 400, "an empty success hides a mistake")
		c.effects("silent", 1)
		require.Contains(c, c.log.String(), "level=ERROR")
	}},
	{
		rule:    "a refusal is rendered once, before and after the handler",
		skip:    func(w Wiring) bool { return w.Refusal == nil },
		refusal: true,
		run: func(c *client) {
			before, after := c.post("/charges/1", "", "alice"), c.post("/silent", "k", "alice")
			require.Equal(c, http.StatusBadRequest, before.status, "a success hides a refusal")
			require.Equal(c, http.StatusInternalServerError, after.status, "a success hides a refusal")
			for _, r := range []reply{before, after} {
				require.Contains(c, r.header.Get("Content-Type"), "application/json")
				require.JSONEq(c, `{"refused":"`+r.header.Get("Error-Code")+`"}`, r.body)
			}
			require.Equal(c, http.StatusCreated, c.post("/charges/1", "k", "alice").status)
			unwritten := c.post("/charges/2", "k", "alice")
			require.Equal(c, http.StatusConflict, unwritten.status)
			require.Equal(c, "application/problem+json", unwritten.header.Get("Content-Type"))
			require.True(c, json.Valid([]byte(unwritten.body)), unwritten.body)
		},
	},
	{
		rule:  "a wrong wiring is loud",
		skip:  func(w Wiring) bool { return w.Wrong == nil },
		wrong: true,
		run: func(c *client) {
			c.post("/charges/1", "k", "alice")
			again := c.post("/charges/1", "k", "alice")
			require.GreaterOrEqual(c, again.status, 400, "an empty success hides a mistake: %v %q",
				again.header, again.body)
			c.effects("charge", 1)
			require.Contains(c, c.log.String(), "level=ERROR")
		},
	},
}
