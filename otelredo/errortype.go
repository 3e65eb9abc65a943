package otelredo

import (
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"

	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/server"
	"github.com/redo-go/redo/taxonomy"
	"github.com/redo-go/redo/webhook"
)

// ownCodes holds redo's own codes, and their families.
var ownCodes = func() map[taxonomy.Code]bool {
	own := map[taxonomy.Code]bool{}
	for _, c := range append(taxonomy.Codes(),
		webhook.AddressRefused, webhook.Unsigned, webhook.SigningUnavailable, webhook.ClockSkew,
		server.Unreadable, server.Misconfigured, inbox.Unreadable, inbox.HandlerFailed, outbox.Rejected) {
		own[c], own[c.Family()] = true, true
	}
	return own
}()

// errorType returns the attribute error.type of a metric. It is the code, or the longest prefix of it that is one of
// redo's own codes. Other codes come from remote servers, and each value of an attribute is another series.
func errorType(code taxonomy.Code) attribute.KeyValue {
	for c := code; c != ""; c = c[:max(0, strings.LastIndexByte(string(c), '.'))] {
		if ownCodes[c] {
			return semconv.ErrorTypeKey.String(string(c))
		}
	}
	return semconv.ErrorTypeOther
}
