package redonats_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo/broker"
	"github.com/redo-go/redo/broker/internal/brokertest"
	redonats "github.com/redo-go/redo/broker/nats"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/taxonomy"
)

func TestMain(m *testing.M) { brokertest.Main(m, consume) }

// serve starts a server that ends with the test.
func serve(t *testing.T) *server.Server {
	t.Helper()
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
	})
	require.NoError(t, err)
	srv.Start()
	t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	require.True(t, srv.ReadyForConnections(10*time.Second))
	return srv
}

func connect(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(url)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	require.NoError(t, err)
	return js
}

// open starts a server with the stream SHOP, which has the subjects shop.>, and its consumer.
func open(t *testing.T) *brokertest.Broker {
	srv := serve(t)
	js := connect(t, srv.ClientURL())
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "SHOP", Subjects: []string{"shop.>"}, Storage: jetstream.MemoryStorage, MaxMsgSize: 4000,
	})
	require.NoError(t, err)
	consumer, err := stream.CreateConsumer(t.Context(),
		jetstream.ConsumerConfig{Durable: "inbox", AckWait: time.Second})
	require.NoError(t, err)
	publisher, err := redonats.NewPublisher(js)
	require.NoError(t, err)
	return &brokertest.Broker{
		Publisher:    publisher,
		Destination:  "shop.refunds",
		Deduplicates: true,
		NeverSent:    true,
		Address:      srv.ClientURL(),
		Consume:      consume,
		Stop: func(*testing.T) {
			srv.Shutdown()
			srv.WaitForShutdown()
		},
		Stored: func(t *testing.T) []brokertest.Message { return stored(t, stream) },
		Pending: func(t *testing.T) int {
			info, err := consumer.Info(t.Context())
			require.NoError(t, err)
			return int(info.NumPending) + info.NumAckPending
		},
		Foreign: func(t *testing.T, payload string) {
			_, err := js.Publish(t.Context(), "shop.refunds", []byte(payload))
			require.NoError(t, err)
		},
		Terminal: map[string]outbox.Event{
			"no subject": {ID: "bad"},
			"a message too long for the stream": {
				ID: "bad", Destination: "shop.refunds", Payload: make([]byte, 5000),
			},
		},
		Transient: map[string]outbox.Event{"a subject of no stream": {ID: "bad", Destination: "elsewhere"}},
	}
}

// consume is the consumer of the stream until ctx ends, and until the handler has ended.
func consume(ctx context.Context, address, source string, receive broker.Receive) error {
	conn, err := nats.Connect(address)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	consumer, err := js.Consumer(context.WithoutCancel(ctx), "SHOP", "inbox")
	if err != nil {
		return err
	}
	consuming, err := consumer.Consume(redonats.Handler(ctx, source, receive))
	if err != nil {
		return err
	}
	<-ctx.Done()
	consuming.Drain()
	<-consuming.Closed()
	return conn.FlushTimeout(time.Second)
}

func stored(t *testing.T, stream jetstream.Stream) []brokertest.Message {
	info, err := stream.Info(t.Context())
	require.NoError(t, err)
	var messages []brokertest.Message
	for seq := uint64(1); seq <= info.State.LastSeq; seq++ {
		msg, err := stream.GetMsg(t.Context(), seq)
		require.NoError(t, err)
		m := brokertest.Message{
			ID: msg.Header.Get(broker.HeaderID), Dedup: msg.Header.Get(nats.MsgIdHdr),
			Type:        msg.Header.Get(broker.HeaderType),
			OrderingKey: msg.Header.Get(redonats.HeaderOrderingKey), Header: http.Header(msg.Header),
			Payload: string(msg.Data),
		}
		for _, name := range []string{broker.HeaderID, nats.MsgIdHdr, broker.HeaderType, redonats.HeaderOrderingKey} {
			m.Header.Del(name)
		}
		messages = append(messages, m)
	}
	return messages
}

func TestBroker(t *testing.T) { brokertest.Run(t, open) }

func TestAnIDIsOneSubjectOfAStream(t *testing.T) {
	b := open(t)
	first := outbox.Event{ID: "1", Destination: "shop.refunds"}
	second := outbox.Event{ID: "1", Destination: "shop.audit"}
	require.NoError(t, b.Publisher.Publish(t.Context(), first))
	require.ErrorContains(t, b.Publisher.Publish(t.Context(), second), "has the id on the subject shop.refunds")
	require.NoError(t, b.Publisher.Publish(t.Context(), first), "the same subject is a success")
}

func TestADuplicateOfADeletedMessageIsASuccess(t *testing.T) {
	b := open(t)
	ev := outbox.Event{ID: "1", Destination: "shop.refunds"}
	require.NoError(t, b.Publisher.Publish(t.Context(), ev))
	stream, err := connect(t, b.Address).Stream(t.Context(), "SHOP")
	require.NoError(t, err)
	require.NoError(t, stream.DeleteMsg(t.Context(), 1))
	require.NoError(t, b.Publisher.Publish(t.Context(), ev))
	require.Empty(t, func() []uint64 {
		info, err := stream.Info(t.Context())
		require.NoError(t, err)
		return make([]uint64, info.State.Msgs)
	}(), "it is not stored anew")
}

// An account's or a stream's condition is no property of the event: the operator mends it.
func TestAFullAccountAndASealedStreamAreTransient(t *testing.T) {
	srv := serve(t)
	js := connect(t, srv.ClientURL())
	publisher, err := redonats.NewPublisher(js)
	require.NoError(t, err)
	for name, config := range map[string]jetstream.StreamConfig{"FULL": {}, "SEALED": {}} {
		config.Name, config.Subjects, config.Storage = name, []string{name}, jetstream.MemoryStorage
		_, err := js.CreateStream(t.Context(), config)
		require.NoError(t, err)
		config.Sealed = name == "SEALED"
		_, err = js.UpdateStream(t.Context(), config)
		require.NoError(t, err)
	}
	require.NoError(t, srv.GlobalAccount().UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{
		"": {MaxMemory: 2000, MaxStore: 2000, MaxStreams: -1, MaxConsumers: -1},
	}))
	ev := func(id, subject string) outbox.Event {
		return outbox.Event{ID: id, Destination: subject, Payload: make([]byte, 1500)}
	}
	require.NoError(t, publisher.Publish(t.Context(), ev("1", "FULL")))
	for subject, text := range map[string]string{"FULL": "resource limits exceeded", "SEALED": "sealed stream"} {
		err := publisher.Publish(t.Context(), ev("2", subject))
		require.ErrorContains(t, err, text)
		require.ErrorIs(t, err, taxonomy.Unavailable, "no dead letter: %v", err)
	}
}

func TestAnOrderingKeyIsNotTakenFromTheEventsHeader(t *testing.T) {
	b := open(t)
	h := http.Header{redonats.HeaderOrderingKey: {"other"}}
	for i, key := range []string{"", "re_1"} {
		ev := outbox.Event{ID: key + "1", Destination: "shop.refunds", OrderingKey: key, Header: h}
		require.NoError(t, b.Publisher.Publish(t.Context(), ev))
		require.Equal(t, key, b.Stored(t)[i].OrderingKey)
	}
}

func TestNewPublisherRefusesNil(t *testing.T) {
	_, err := redonats.NewPublisher(nil)
	require.ErrorContains(t, err, "JetStream context is nil")
}
