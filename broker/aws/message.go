package redoaws

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/redo-go/redo/broker"
	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
)

// Encoding is the attribute of a message whose body is in base64. Its value is "base64". A header of that name in the
// event is dropped.
const Encoding = "Event-Encoding"

// Limits of SQS and SNS.
const (
	maxAttributes = 10
	maxName       = 128 // characters of a deduplication id, and of a message group
)

// A message is an event in the form that SQS and SNS share.
type message struct {
	body         string
	attributes   map[string]string
	group, dedup *string // nil for a standard queue or topic
}

func encode(ev outbox.Event) (message, error) {
	m := message{body: string(ev.Payload), attributes: map[string]string{}}
	for name, values := range broker.Header(ev) {
		m.attributes[name] = strings.Join(values, ", ")
	}
	delete(m.attributes, Encoding) // of the event's own header
	if !isText(m.body) {
		m.attributes[Encoding] = "base64"
		m.body = base64.StdEncoding.EncodeToString(ev.Payload) + "\n" // a body must not be empty
	}
	if n := len(m.attributes); n > maxAttributes {
		// SNS would drop the message on its way to SQS.
		return message{}, fmt.Errorf("redoaws: the event's id, type and header need %d attributes, at "+
			"most %d are allowed",
			n, maxAttributes)
	}
	if strings.HasSuffix(ev.Destination, ".fifo") {
		group, dedup := name(ev.OrderingKey), name(ev.ID)
		if ev.OrderingKey == "" {
			group = dedup
		}
		m.group, m.dedup = &group, &dedup
	}
	return m, nil
}

// isText reports whether a body may be s: "#x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF"
// (SendMessage in the SQS API reference).
func isText(s string) bool {
	for _, r := range s {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff {
			return false
		}
	}
	return s != "" && utf8.ValidString(s)
}

// name returns s if it may be a deduplication id or a message group, and otherwise its hash. Both may have letters,
// digits and punctuation of ASCII.
func name(s string) string {
	if len(s) <= maxName && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// decode returns the event of a message.
func decode(source string, msg sqstypes.Message) inbox.Event {
	attribute := func(name string) string {
		if v := msg.MessageAttributes[name].StringValue; v != nil {
			return *v
		}
		return ""
	}
	ev := inbox.Event{Source: source, ID: attribute(broker.HeaderID)}
	if ev.ID == "" && msg.MessageId != nil {
		ev.ID = "sqs:" + *msg.MessageId
	}
	if msg.Body != nil {
		ev.Payload = []byte(*msg.Body)
	}
	if attribute(Encoding) == "base64" {
		if payload, err := base64.StdEncoding.DecodeString(string(ev.Payload)); err == nil {
			ev.Payload = payload
		}
	}
	return ev
}
