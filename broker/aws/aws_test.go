package redoaws_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/broker"
	redoaws "github.com/redo-go/redo/broker/aws"
	"github.com/redo-go/redo/broker/internal/brokertest"
	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
)

// asMessage returns a message that a publisher has made.
func asMessage(t *testing.T, msg sqstypes.Message) brokertest.Message {
	t.Helper()
	m := brokertest.Message{Dedup: msg.Attributes["MessageDeduplicationId"], Header: http.Header{}, Payload: *msg.Body}
	for name, value := range msg.MessageAttributes {
		require.Equal(t, "String", *value.DataType)
		switch name {
		case broker.HeaderID:
			m.ID = *value.StringValue
		case broker.HeaderType:
			m.Type = *value.StringValue
		case redoaws.Encoding:
			require.Equal(t, "base64", *value.StringValue)
			payload, err := base64.StdEncoding.DecodeString(m.Payload)
			require.NoError(t, err)
			m.Payload = string(payload)
		default:
			m.Header.Set(name, *value.StringValue)
		}
	}
	// Without an ordering key an event is a separate group.
	if group := msg.Attributes["MessageGroupId"]; group != m.Dedup {
		m.OrderingKey = group
	}
	return m
}

const standard = "https://sqs.example/1/refunds"

// A request of SendMessage, as far as the tests read it.
type request struct {
	MessageBody       string
	Group             string `json:"MessageGroupId"`
	Dedup             string `json:"MessageDeduplicationId"`
	MessageAttributes map[string]struct{ DataType, StringValue string }
}

// sent publishes the event to an endpoint that accepts everything, and returns the request.
func sent(t *testing.T, ev outbox.Event) request {
	t.Helper()
	var r request
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil || json.Unmarshal(body, &r) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		respond(w, http.StatusOK, "", `{"MessageId":"1"}`)
	}))
	defer srv.Close()
	publisher, err := redoaws.NewSQS(queues(srv.URL))
	require.NoError(t, err)
	require.NoError(t, publisher.Publish(t.Context(), ev))
	return r
}

// respond sends a response of SQS. queryError is the older name of an error.
func respond(w http.ResponseWriter, status int, queryError, body string) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	if queryError != "" {
		w.Header().Set("X-Amzn-Query-Error", queryError)
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func TestNamesOfAFIFOQueueAreThoseThatAWSTakes(t *testing.T) {
	punctuation := "a!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~Z9"
	for rule, c := range map[string]struct {
		id, key      string
		dedup, group string
	}{
		"as they are": {
			id: "refund:re_1", key: "customer-7", dedup: "refund:re_1", group: "customer-7",
		},
		"each event is its own group": {id: "refund:re_1", dedup: "refund:re_1", group: "refund:re_1"},
		"all punctuation":             {id: punctuation, key: punctuation, dedup: punctuation, group: punctuation},
		"128 characters": {
			id: strings.Repeat("x", 128), key: "k", dedup: strings.Repeat("x", 128), group: "k",
		},
		"129 characters are hashed": {
			id: strings.Repeat("x", 129), key: strings.Repeat("k", 129),
			dedup: "sha256:", group: "sha256:",
		},
		"a space is hashed":                {id: "1", key: "customer 7", dedup: "1", group: "sha256:"},
		"a key that is no ASCII is hashed": {id: "1", key: "Zoë", dedup: "1", group: "sha256:"},
	} {
		t.Run(rule, func(t *testing.T) {
			r := sent(t, outbox.Event{ID: c.id, OrderingKey: c.key, Destination: standard + ".fifo"})
			require.Equal(t, c.id, r.MessageAttributes[broker.HeaderID].StringValue, "the attribute has the whole id")
			for _, pair := range [][2]string{{c.dedup, r.Dedup}, {c.group, r.Group}} {
				if want, got := pair[0], pair[1]; want == "sha256:" {
					require.Regexp(t, "^sha256:[0-9a-f]{64}$", got)
				} else {
					require.Equal(t, want, got)
				}
			}
		})
	}
	t.Run("different long ids stay different", func(t *testing.T) {
		ids := map[string]bool{}
		for _, last := range []string{"1", "2"} {
			ev := outbox.Event{ID: strings.Repeat("x", 200) + last, Destination: standard + ".fifo"}
			ids[sent(t, ev).Dedup] = true
		}
		require.Len(t, ids, 2)
	})
	t.Run("a standard queue has neither", func(t *testing.T) {
		r := sent(t, outbox.Event{ID: "1", OrderingKey: "k", Destination: standard})
		require.Empty(t, r.Dedup+r.Group)
	})
}

func TestABodyIsTextOrBase64(t *testing.T) {
	for payload, encoded := range map[string]bool{
		`{"refund":"re_1"}`: false, "tab\tand\r\nline": false, "Zoë 🙂": false,
		"": true, "\x00": true, "\x1b": true, "\xff": true, "\ufffe": true, "\uffff": true,
	} {
		r := sent(t, outbox.Event{ID: "1", Destination: standard, Payload: []byte(payload)})
		require.NotEmpty(t, r.MessageBody)
		if !encoded {
			require.Equal(t, payload, r.MessageBody)
			require.NotContains(t, r.MessageAttributes, redoaws.Encoding)
			continue
		}
		require.Equal(t, "base64", r.MessageAttributes[redoaws.Encoding].StringValue)
		got, err := base64.StdEncoding.DecodeString(r.MessageBody)
		require.NoError(t, err)
		require.Equal(t, payload, string(got))
	}
}

func TestTheEventsOwnHeaderDoesNotEncodeItsBody(t *testing.T) {
	h := http.Header{redoaws.Encoding: {"base64"}, "X-Part": {"one"}}
	r := sent(t, outbox.Event{ID: "1", Destination: standard, Payload: []byte("cmVmdW5k"), Header: h})
	require.Equal(t, "cmVmdW5k", r.MessageBody)
	require.NotContains(t, r.MessageAttributes, redoaws.Encoding, "the consumer would decode the payload")
	require.Contains(t, r.MessageAttributes, "X-Part")
}

// The responses are those of AWS's API reference. The emulator does not send all of them.
func TestErrorsOfSQS(t *testing.T) {
	for rule, c := range map[string]struct {
		status            int
		queryError, class string
		want              outbox.Result
	}{
		"a message that is too long": {
			http.StatusBadRequest, "InvalidParameterValue;Sender", "InvalidParameterValueException", outbox.Dead,
		},
		"characters that SQS does not take": {
			http.StatusBadRequest, "InvalidMessageContents;Sender", "InvalidMessageContents", outbox.Dead,
		},
		"no such queue": {
			http.StatusBadRequest, "AWS.SimpleQueueService.NonExistentQueue;Sender", "QueueDoesNotExist",
			outbox.Waiting,
		},
		"access denied": {
			http.StatusForbidden, "AccessDenied;Sender", "AccessDeniedException", outbox.Waiting,
		},
		"an expired token": {
			http.StatusForbidden, "ExpiredToken;Sender", "ExpiredTokenException", outbox.Waiting,
		},
		"throttled": {
			http.StatusBadRequest, "RequestThrottled;Sender", "RequestThrottled", outbox.Waiting,
		},
		"a key that is disabled": {
			http.StatusBadRequest, "KMS.DisabledException;Sender", "KmsDisabled", outbox.Waiting,
		},
		"a fault of SQS": {
			http.StatusInternalServerError, "InternalFailure;Receiver", "InternalFailure", outbox.Waiting,
		},
	} {
		t.Run(rule, func(t *testing.T) {
			requests := 0
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				requests++
				respond(w, c.status, c.queryError,
					fmt.Sprintf(`{"__type":"com.amazonaws.sqs#%s","message":"no"}`, c.class))
			}))
			defer srv.Close()
			publisher, err := redoaws.NewSQS(queues(srv.URL))
			require.NoError(t, err)
			a := brokertest.Attempt(t, publisher, outbox.Event{ID: "1", Destination: standard})
			require.Equal(t, c.want, a.Result, "%v", a.Err)
			require.Equal(t, 1, requests, "the relay retries, and no other layer")
		})
	}
}

func TestErrorsOfSNS(t *testing.T) {
	for code, c := range map[string]struct {
		status int
		want   outbox.Result
	}{
		"InvalidParameter":   {http.StatusBadRequest, outbox.Dead},
		"NotFound":           {http.StatusNotFound, outbox.Waiting},
		"AuthorizationError": {http.StatusForbidden, outbox.Waiting},
		"Throttled":          {http.StatusTooManyRequests, outbox.Waiting},
		"InternalError":      {http.StatusInternalServerError, outbox.Waiting},
	} {
		t.Run(code, func(t *testing.T) {
			requests := 0
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				requests++
				w.WriteHeader(c.status)
				fmt.Fprintf(w, "<ErrorResponse><Error><Code>%s</Code><Message>no</Message></Error></ErrorResponse>",
					code)
			}))
			defer srv.Close()
			publisher, err := redoaws.NewSNS(topics(srv.URL))
			require.NoError(t, err)
			a := brokertest.Attempt(t, publisher, outbox.Event{ID: "1", Destination: "arn:aws:sns:us-east-1:1:refunds"})
			require.Equal(t, c.want, a.Result, "%v", a.Err)
			require.Equal(t, 1, requests, "the relay retries, and no other layer")
		})
	}
}

func TestRunReturnsAnErrorThatNoRepetitionMends(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusForbidden, "AccessDenied;Sender", `{"__type":"com.amazonaws.sqs#AccessDeniedException"}`)
	}))
	defer srv.Close()
	err := consume(t.Context(), fmt.Sprintf(`{"Base":%q,"Queue":"q"}`, srv.URL), "shop", receiveNothing)
	require.ErrorContains(t, err, "AccessDenied")
}

func receiveNothing(context.Context, inbox.Event) (inbox.Receipt, error) { return inbox.Receipt{}, nil }

func TestConstructorsRefuseNil(t *testing.T) {
	client := queues("http://localhost")
	_, err := redoaws.NewSQS(nil)
	require.ErrorContains(t, err, "the client is nil")
	_, err = redoaws.NewSNS(nil)
	require.ErrorContains(t, err, "the client is nil")
	_, err = redoaws.NewConsumer(nil, "q", "shop", receiveNothing)
	require.ErrorContains(t, err, "the client is nil")
	_, err = redoaws.NewConsumer(client, "", "shop", receiveNothing)
	require.ErrorContains(t, err, "URL is empty")
	_, err = redoaws.NewConsumer(client, "q", "shop", nil)
	require.ErrorContains(t, err, "receive is nil")
	_, err = redoaws.NewConsumer(client, "q", "shop", receiveNothing)
	require.NoError(t, err)
}
