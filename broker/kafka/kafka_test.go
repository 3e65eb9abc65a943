package redokafka_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/redo-go/redo/broker"
	"github.com/redo-go/redo/broker/internal/brokertest"
	redokafka "github.com/redo-go/redo/broker/kafka"
	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
)

func TestMain(m *testing.M) { brokertest.Main(m, consume) }

const (
	topic = "refunds"
	group = "ledger"
)

func newClient(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(opts...)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// open starts a cluster of three brokers with one topic of three partitions.
func open(t *testing.T) *brokertest.Broker {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(3, topic),
		kfake.GroupMinSessionTimeout(100*time.Millisecond))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	seeds := kgo.SeedBrokers(cluster.ListenAddrs()...)
	client := newClient(t, seeds, kgo.ProducerBatchMaxBytes(4000), kgo.UnknownTopicRetries(1))
	publisher, err := redokafka.NewPublisher(client)
	require.NoError(t, err)
	return &brokertest.Broker{
		Publisher:   publisher,
		Destination: topic,
		Ordered:     true,
		Address:     strings.Join(cluster.ListenAddrs(), ","),
		Consume:     consume,
		Stop:        func(*testing.T) { cluster.Close() },
		Stored:      func(t *testing.T) []brokertest.Message { return stored(t, seeds) },
		Pending:     func(t *testing.T) int { return pending(t, client) },
		Foreign: func(t *testing.T, payload string) {
			require.NoError(t,
				client.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte(payload)}).FirstErr())
		},
		Terminal: map[string]outbox.Event{
			"no topic":                            {ID: "bad"},
			"a record that is too large to write": {ID: "bad", Destination: topic, Payload: noise(5000)},
		},
		Transient: map[string]outbox.Event{"a topic that does not exist": {ID: "bad", Destination: "elsewhere"}},
	}
}

// noise returns bytes that can't be compressed much.
func noise(n int) []byte {
	b := make([]byte, n)
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

func consume(ctx context.Context, address, source string, receive broker.Receive) error {
	consumer, err := redokafka.NewConsumer(source, receive, kgo.SeedBrokers(strings.Split(address, ",")...),
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(time.Second), kgo.HeartbeatInterval(100*time.Millisecond),
		kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return err
	}
	return consumer.Run(ctx)
}

// stored reads the topic to its end.
func stored(t *testing.T, seeds kgo.Opt) []brokertest.Message {
	client := newClient(t, seeds, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	ends, err := kadm.NewClient(client).ListEndOffsets(t.Context(), topic)
	require.NoError(t, err)
	left := 0
	ends.Each(func(o kadm.ListedOffset) { left += int(o.Offset) })
	var messages []brokertest.Message
	for left > 0 {
		fetches := client.PollFetches(t.Context())
		require.NoError(t, fetches.Err())
		for r := range fetches.RecordsAll() {
			left--
			m := brokertest.Message{Header: http.Header{}, Payload: string(r.Value)}
			for _, h := range r.Headers {
				switch h.Key {
				case broker.HeaderID:
					m.ID = string(h.Value)
				case broker.HeaderType:
					m.Type = string(h.Value)
				default:
					m.Header.Add(h.Key, string(h.Value))
				}
			}
			if key := string(r.Key); key != m.ID {
				m.OrderingKey = key
			}
			messages = append(messages, m)
		}
	}
	return messages
}

// pending returns the group's lag.
func pending(t *testing.T, client *kgo.Client) int {
	admin := kadm.NewClient(client)
	ends, err := admin.ListEndOffsets(t.Context(), topic)
	require.NoError(t, err)
	committed, err := admin.FetchOffsets(t.Context(), group)
	require.NoError(t, err)
	lag := 0
	ends.Each(func(o kadm.ListedOffset) {
		at := int64(0)
		if c, ok := committed.Lookup(o.Topic, o.Partition); ok {
			at = max(at, c.At)
		}
		lag += int(o.Offset - at)
	})
	return lag
}

func TestBroker(t *testing.T) { brokertest.Run(t, open) }

func TestNewPublisherRefusesAClientThatCanLoseEvents(t *testing.T) {
	for rule, c := range map[string]struct {
		opts []kgo.Opt
		want string
	}{
		"franz-go's defaults pass": {},
		"acknowledgements of one broker": {
			opts: []kgo.Opt{kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite()}, want: "AllISRAcks",
		},
		"no idempotence": {opts: []kgo.Opt{kgo.DisableIdempotentWrite()}, want: "DisableIdempotentWrite"},
	} {
		t.Run(rule, func(t *testing.T) {
			_, err := redokafka.NewPublisher(newClient(t, c.opts...))
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
	_, err := redokafka.NewPublisher(nil)
	require.ErrorContains(t, err, "the client is nil")
}

func TestNewConsumerRefusesWhatCannotWork(t *testing.T) {
	receive := func(context.Context, inbox.Event) (inbox.Receipt, error) { return inbox.Receipt{}, nil }
	_, err := redokafka.NewConsumer("shop", receive, kgo.ConsumeTopics(topic))
	require.ErrorContains(t, err, "no ConsumerGroup")
	_, err = redokafka.NewConsumer("shop", nil, kgo.ConsumerGroup(group))
	require.ErrorContains(t, err, "receive is nil")
	_, err = redokafka.NewConsumer("shop", receive, kgo.ConsumerGroup(group))
	require.ErrorContains(t, err, "no ConsumeTopics", "it would wait forever")
	_, err = redokafka.NewConsumer("shop", receive, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.AutoCommitMarks())
	require.ErrorContains(t, err, "marked autocommitting")
	_, err = redokafka.NewConsumer("shop", receive, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic))
	require.NoError(t, err)
}

// A member that joins and leaves would have the group's running members stop their partitions.
func TestNewConsumerDoesNotJoinTheGroup(t *testing.T) {
	var dials atomic.Int64
	dial := func(context.Context, string, string) (net.Conn, error) {
		dials.Add(1)
		return nil, errors.New("no connection")
	}
	receive := func(context.Context, inbox.Event) (inbox.Receipt, error) { return inbox.Receipt{}, nil }
	for range 100 {
		for _, opt := range []kgo.Opt{kgo.Dialer(dial), kgo.DialTLSConfig(&tls.Config{MinVersion: tls.VersionTLS13})} {
			_, err := redokafka.NewConsumer("shop", receive, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), opt)
			require.NoError(t, err)
		}
	}
	require.Zero(t, dials.Load())
}

// fill publishes events of six ordering keys, which are in all three partitions, and returns their ids.
func fill(t *testing.T, b *brokertest.Broker) []string {
	t.Helper()
	ids := []string{"a", "b", "c", "d", "e", "f"}
	for _, id := range ids {
		require.NoError(t, b.Publisher.Publish(t.Context(), outbox.Event{ID: id, Destination: topic, OrderingKey: id}))
	}
	return ids
}

// member consumes as a member of the group until stop, with the handler f.
func member(t *testing.T, b *brokertest.Broker, f func(id string) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- consume(ctx, b.Address, "shop", func(_ context.Context, ev inbox.Event) (inbox.Receipt, error) {
			return inbox.Receipt{}, f(ev.ID)
		})
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	t.Cleanup(stop)
	return stop
}

// failing is a handler whose events wait for an hour.
func failing(failed chan<- string) func(string) error {
	return func(id string) error {
		failed <- id
		return &inbox.Error{RetryAfter: time.Hour}
	}
}

func TestAMemberThatLeavesHandsItsPartitionsOver(t *testing.T) {
	b := open(t)
	ids := fill(t, b)
	failed, handled := make(chan string, 100), make(chan string, 100)
	leave := member(t, b, failing(failed))
	<-failed
	leave()
	require.Equal(t, len(ids), b.Pending(t))

	stop := member(t, b, func(id string) error {
		handled <- id
		return nil
	})
	var got []string
	for range ids {
		got = append(got, <-handled)
	}
	stop()
	require.ElementsMatch(t, ids, got)
	require.Zero(t, b.Pending(t), "Run commits before it returns")
}

func TestAMemberThatJoinsGetsPartitionsFromOneThatWaits(t *testing.T) {
	b := open(t)
	ids := fill(t, b)
	failed, handled := make(chan string, 100), make(chan string, 100)
	member(t, b, failing(failed))
	for range 3 {
		<-failed // each partition waits
	}
	member(t, b, func(id string) error {
		handled <- id
		return nil
	})
	require.Contains(t, ids, <-handled)
}

func TestRunReturnsAnErrorThatTheClientDoesNotRetry(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.SeedTopics(1, topic), kfake.EnableACLs())
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	receive := func(context.Context, inbox.Event) (inbox.Receipt, error) { return inbox.Receipt{}, nil }
	err = consume(t.Context(), strings.Join(cluster.ListenAddrs(), ","), "shop", receive)
	require.ErrorIs(t, err, kerr.TopicAuthorizationFailed)
}
