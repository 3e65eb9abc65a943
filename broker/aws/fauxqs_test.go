package redoaws_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/broker"
	redoaws "github.com/redo-go/redo/broker/aws"
	"github.com/redo-go/redo/broker/internal/brokertest"
	"github.com/redo-go/redo/internal/freeport"
	"github.com/redo-go/redo/outbox"
)

func TestMain(m *testing.M) { brokertest.Main(m, consume) }

// serve starts fauxqs, and returns its URL. REDO_TEST_FAUXQS is the directory with its node_modules. The default is the
// directory that .ci/run makes. Without either the test is skipped.
func serve(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("REDO_TEST_FAUXQS")
	if dir == "" {
		dir = "../../.cache/fauxqs-*"
	}
	node, err := filepath.Glob(filepath.Join(dir, "node_modules/node-linux-*/bin/node"))
	require.NoError(t, err)
	if len(node) == 0 {
		if os.Getenv("REDO_TEST_REQUIRE") == "1" {
			t.Fatalf("REDO_TEST_REQUIRE is set, and %s has no fauxqs", dir)
		}
		t.Skip("needs fauxqs: run npm ci in a copy of testdata/fauxqs, and set REDO_TEST_FAUXQS to it")
	}
	port, err := freeport.Port()
	require.NoError(t, err)
	cmd := exec.Command(node[0], filepath.Join(node[0], "../../../fauxqs/dist/cli.js"))
	cmd.Env = append(os.Environ(), fmt.Sprint("FAUXQS_PORT=", port))
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait()
	})
	base := fmt.Sprint("http://127.0.0.1:", port)
	require.Eventually(t, func() bool {
		resp, err := http.Get(base + "/health")
		if err != nil {
			return false
		}
		return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	}, 30*time.Second, 50*time.Millisecond)
	return base
}

var credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
})

func queues(base string) *sqs.Client {
	return sqs.New(sqs.Options{BaseEndpoint: &base, Region: "us-east-1", Credentials: credentials})
}

func topics(base string) *sns.Client {
	return sns.New(sns.Options{BaseEndpoint: &base, Region: "us-east-1", Credentials: credentials})
}

// An address is where consume finds a queue.
type address struct{ Base, Queue string }

func consume(ctx context.Context, text, source string, receive broker.Receive) error {
	var a address
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return err
	}
	consumer, err := redoaws.NewConsumer(queues(a.Base), a.Queue, source, receive)
	if err != nil {
		return err
	}
	return consumer.Run(ctx)
}

func TestBroker(t *testing.T) {
	base := serve(t)
	for _, c := range []struct {
		rule        string
		topic, fifo bool
	}{
		{rule: "SQS"},
		{rule: "SQS FIFO", fifo: true},
		{rule: "SNS", topic: true},
		{rule: "SNS FIFO", topic: true, fifo: true},
	} {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel() // most of the time is visibility timeouts, which have whole seconds
			names := 0
			brokertest.Run(t, func(t *testing.T) *brokertest.Broker {
				names++
				return open(t, base, fmt.Sprintf("%s-%d", strings.ReplaceAll(c.rule, " ", "-"), names), c.topic, c.fifo)
			})
		})
	}
}

// open makes a queue, and a topic that it is subscribed to.
func open(t *testing.T, base, name string, topic, fifo bool) *brokertest.Broker {
	t.Helper()
	// Stop ends a proxy, because all tests share one server.
	target, err := url.Parse(base)
	require.NoError(t, err)
	proxy := httptest.NewServer(httputil.NewSingleHostReverseProxy(target))
	t.Cleanup(proxy.Close)

	client := queues(base)
	queue := newQueue(t, client, name, fifo)
	text, err := json.Marshal(address{base, queue})
	require.NoError(t, err)
	b := &brokertest.Broker{
		Destination:  queue,
		Deduplicates: fifo,
		NeverSent:    true,
		Ordered:      fifo,
		Keyless:      !fifo,
		Joins:        true,
		Address:      string(text),
		Consume:      consume,
		Stop:         func(*testing.T) { proxy.Close() },
		Stored:       func(t *testing.T) []brokertest.Message { return stored(t, client, queue) },
		Pending:      func(t *testing.T) int { return pending(t, client, queue) },
		Foreign: func(t *testing.T, payload string) {
			in := &sqs.SendMessageInput{QueueUrl: &queue, MessageBody: &payload}
			if fifo {
				in.MessageGroupId, in.MessageDeduplicationId = aws.String("foreign"),
					aws.String(fmt.Sprint(time.Now().UnixNano()))
			}
			_, err := client.SendMessage(t.Context(), in)
			require.NoError(t, err)
		},
	}
	b.Publisher, err = redoaws.NewSQS(queues(proxy.URL))
	require.NoError(t, err)
	missing := strings.Replace(queue, name, "missing", 1)
	if topic {
		b.Publisher, err = redoaws.NewSNS(topics(proxy.URL))
		require.NoError(t, err)
		b.Destination = newTopic(t, topics(base), client, name, queue, fifo)
		missing = strings.Replace(b.Destination, name, "missing", 1)
	}
	nine := http.Header{}
	for i := range 9 {
		nine.Set(fmt.Sprintf("X-%d", i), "1")
	}
	b.Terminal = map[string]outbox.Event{
		"a message that is too large": {ID: "bad", Destination: b.Destination, Payload: make([]byte, 300<<10)},
		"more than ten attributes":    {ID: "bad", Type: "t", Destination: b.Destination, Header: nine},
	}
	b.Transient = map[string]outbox.Event{"a missing destination": {ID: "bad", Destination: missing}}
	return b
}

func newQueue(t *testing.T, client *sqs.Client, name string, fifo bool) string {
	t.Helper()
	in := &sqs.CreateQueueInput{QueueName: &name, Attributes: map[string]string{
		"VisibilityTimeout": "2", "MaximumMessageSize": "262144",
	}}
	if fifo {
		in.QueueName, in.Attributes["FifoQueue"] = aws.String(name+".fifo"), "true"
	}
	out, err := client.CreateQueue(t.Context(), in)
	require.NoError(t, err)
	return *out.QueueUrl
}

func newTopic(t *testing.T, client *sns.Client, queues *sqs.Client, name, queue string, fifo bool) string {
	t.Helper()
	in := &sns.CreateTopicInput{Name: &name, Attributes: map[string]string{}}
	if fifo {
		in.Name, in.Attributes["FifoTopic"] = aws.String(name+".fifo"), "true"
	}
	topic, err := client.CreateTopic(t.Context(), in)
	require.NoError(t, err)
	attributes, err := queues.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: &queue, AttributeNames: []sqstypes.QueueAttributeName{"QueueArn"},
	})
	require.NoError(t, err)
	_, err = client.Subscribe(t.Context(), &sns.SubscribeInput{
		TopicArn: topic.TopicArn, Protocol: aws.String("sqs"), Endpoint: aws.String(attributes.Attributes["QueueArn"]),
		Attributes: map[string]string{"RawMessageDelivery": "true"},
	})
	require.NoError(t, err)
	return *topic.TopicArn
}

// stored takes all messages of the queue.
func stored(t *testing.T, client *sqs.Client, queue string) []brokertest.Message {
	t.Helper()
	var messages []brokertest.Message
	for {
		out, err := client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{
			QueueUrl: &queue, MaxNumberOfMessages: 10, MessageAttributeNames: []string{"All"},
			MessageSystemAttributeNames: []sqstypes.MessageSystemAttributeName{"All"},
		})
		require.NoError(t, err)
		if len(out.Messages) == 0 {
			return messages
		}
		for _, msg := range out.Messages {
			messages = append(messages, asMessage(t, msg))
			_, err := client.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{
				QueueUrl: &queue, ReceiptHandle: msg.ReceiptHandle,
			})
			require.NoError(t, err)
		}
	}
}

func pending(t *testing.T, client *sqs.Client, queue string) int {
	t.Helper()
	out, err := client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: &queue, AttributeNames: []sqstypes.QueueAttributeName{"All"},
	})
	require.NoError(t, err)
	sum := 0
	for _, state := range []string{"", "NotVisible", "Delayed"} {
		n := 0
		_, err := fmt.Sscan(out.Attributes["ApproximateNumberOfMessages"+state], &n)
		require.NoError(t, err)
		sum += n
	}
	return sum
}
