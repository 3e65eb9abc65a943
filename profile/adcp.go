package profile

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/taxonomy"
)

// AdCP describes the Ad Context Protocol. The key is the member idempotency_key of the task's payload. It has 16 to
// 255 letters, digits and _ . : -. A seller declares its retention, from 1 hour to 7 days, as replay_ttl_seconds. The
// profile has the minimum: hand the response to get_adcp_capabilities to [Learn]. A failed task has the member
// adcp_error, even with status 200. IDEMPOTENCY_CONFLICT reports another payload, IDEMPOTENCY_IN_FLIGHT a task that
// is still running, and IDEMPOTENCY_EXPIRED a key past its retention. Its retry_after is not read, nor is an error in
// an event stream. The member replayed marks a replay.
//
// Source: https://github.com/adcontextprotocol/adcp/blob/main/docs/building/by-layer/L1/security.mdx
// Source: https://github.com/adcontextprotocol/adcp/blob/main/docs/building/operating/transport-errors.mdx
// Source: https://github.com/adcontextprotocol/adcp/blob/main/docs/protocol/get_adcp_capabilities.mdx
var AdCP = redo.Profile{
	Name:       "adcp",
	KeyInBody:  true,
	Retention:  time.Hour,
	Methods:    []string{http.MethodPost},
	Classifier: taskErrors,
}

// A taskError is the value of adcp_error.
type taskError struct{ Code, Recovery string }

// A taskEnvelope is the part of a response that reports a task's failure, in its bindings to REST, MCP and A2A.
type taskEnvelope struct {
	Failure           *taskError    `json:"adcp_error"`
	Replayed          bool          `json:"replayed"`
	Result            *taskEnvelope `json:"result"`
	StructuredContent *taskEnvelope `json:"structuredContent"`
	Error             struct {
		Data *taskEnvelope `json:"data"`
	} `json:"error"`
	Content []struct {
		Text string `json:"text"`
	} `json:"content"`
	Artifacts []struct {
		Parts []struct {
			Data *taskEnvelope `json:"data"`
		} `json:"parts"`
	} `json:"artifacts"`
}

// taskErrors classifies a response by its adcp_error.
func taskErrors(_ *http.Response, body []byte, v taxonomy.Verdict) taxonomy.Verdict {
	if v.Said {
		return v
	}
	failure, replayed := parseTask(body).find()
	switch {
	case failure != nil && failure.Code != "":
		return failure.verdict()
	case replayed && v.Class == taxonomy.ClassSuccess:
		v.Final = true
	}
	return v
}

// parseTask returns an empty envelope for a body that is no JSON object. A member of another type than expected counts
// as absent.
func parseTask(body []byte) *taskEnvelope {
	var e taskEnvelope
	_ = json.Unmarshal(body, &e) // what it could read is there
	return &e
}

// find returns the first failure in the envelope, and whether the response is marked as a replay.
func (e *taskEnvelope) find() (failure *taskError, replayed bool) {
	if e == nil {
		return nil, false
	}
	inner := []*taskEnvelope{e.Result, e.StructuredContent, e.Error.Data}
	for _, artifact := range e.Artifacts {
		for _, part := range artifact.Parts {
			inner = append(inner, part.Data)
		}
	}
	if e.StructuredContent == nil && len(e.Content) > 0 && strings.HasPrefix(e.Content[0].Text, "{") {
		inner = append(inner, parseTask([]byte(e.Content[0].Text)))
	}
	failure, replayed = e.Failure, e.Replayed
	for _, next := range inner {
		f, r := next.find()
		if failure == nil {
			failure = f
		}
		replayed = replayed || r
	}
	return failure, replayed
}

// verdict returns the meaning of the error's code. A code without a known meaning leaves the effect unknown, and
// is transient if the error reports so.
func (e *taskError) verdict() taxonomy.Verdict {
	body, err := json.Marshal(map[string]string{"code": e.Code})
	if err == nil {
		// An unrecognized 409 proves nothing, so the verdict depends on the code alone.
		if v := taxonomy.Classify(taxonomy.Answer{Status: http.StatusConflict, Body: body}); v.Said {
			return v
		}
	}
	v := taxonomy.Verdict{Code: taxonomy.Provider + ".task_failed", Said: true}
	if e.Recovery == "transient" {
		v.Code, v.Class = taxonomy.Transient+".task_failed", taxonomy.ClassTransient
	}
	return v
}
