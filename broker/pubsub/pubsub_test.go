package redopubsub_test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/redo-go/redo/broker"
	"github.com/redo-go/redo/broker/internal/brokertest"
	redopubsub "github.com/redo-go/redo/broker/pubsub"
	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store/memstore"
)

func TestMain(m *testing.M) { brokertest.Main(m, consume) }

const (
	project      = "projects/shop"
	topic        = project + "/topics/refunds"
	subscription = project + "/subscriptions/ledger"
)

func connect(ctx context.Context, address string) (*pubsub.Client, error) {
	return pubsub.NewClient(ctx, "shop", option.WithEndpoint(address), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
}

func newClient(t *testing.T, address string) *pubsub.Client {
	t.Helper()
	client, err := connect(t.Context(), address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// limits gives the emulator errors that Pub/Sub has: limits on messages, rights and quotas.
type limits struct{ requests atomic.Int32 }

// React implements pstest.Reactor.
func (l *limits) React(in any) (bool, any, error) {
	l.requests.Add(1)
	r := in.(*pubsubpb.PublishRequest)
	code := codes.OK
	switch {
	case len(r.Messages[0].Data) > 4000:
		code = codes.InvalidArgument
	case r.Topic == project+"/topics/denied":
		code = codes.PermissionDenied
	case r.Topic == project+"/topics/busy":
		code = codes.ResourceExhausted
	case r.Topic == project+"/topics/broken":
		code = codes.Unavailable
	}
	return code != codes.OK, &pubsubpb.PublishResponse{}, status.Error(code, code.String())
}

// serve starts an emulator with one topic and one subscription.
func serve(t *testing.T, opts ...pstest.ServerReactorOption) (srv *pstest.Server, client *pubsub.Client, stop func()) {
	t.Helper()
	srv = pstest.NewServer(opts...)
	stop = sync.OnceFunc(func() { _ = srv.Close() }) // a second Close panics
	t.Cleanup(stop)
	client = newClient(t, srv.Addr)
	_, err := client.TopicAdminClient.CreateTopic(t.Context(), &pubsubpb.Topic{Name: topic})
	require.NoError(t, err)
	_, err = client.SubscriptionAdminClient.CreateSubscription(t.Context(), &pubsubpb.Subscription{
		Name: subscription, Topic: topic, EnableMessageOrdering: true,
	})
	require.NoError(t, err)
	return srv, client, stop
}

func open(t *testing.T) *brokertest.Broker {
	srv, client, stop := serve(t, pstest.ServerReactorOption{FuncName: "Publish", Reactor: &limits{}})
	publisher, err := redopubsub.NewPublisher(client)
	require.NoError(t, err)
	return &brokertest.Broker{
		Publisher:   publisher,
		Destination: topic,
		Ordered:     true,
		Joins:       true,
		Address:     srv.Addr,
		Consume:     consume,
		Stop:        func(*testing.T) { stop() },
		Stored:      func(*testing.T) []brokertest.Message { return stored(srv) },
		Pending: func(*testing.T) int {
			n := 0
			for _, m := range srv.Messages() {
				if m.Acks == 0 {
					n++
				}
			}
			return n
		},
		Expire: func() {
			// A minute of the emulator is a second from now on. One jump is not enough: the emulator may then deliver
			// to the connection of the killed process, before it finds it closed.
			start := time.Now()
			srv.SetTimeNowFunc(func() time.Time { return start.Add(60 * time.Since(start)) })
		},
		Foreign: func(_ *testing.T, payload string) { srv.Publish(topic, []byte(payload), nil) },
		Terminal: map[string]outbox.Event{
			"no topic":                    {ID: "bad"},
			"a message that is too large": {ID: "bad", Destination: topic, Payload: make([]byte, 5000)},
		},
		Transient: map[string]outbox.Event{
			"a topic that does not exist": {ID: "bad", Destination: project + "/topics/elsewhere"},
			"access denied":               {ID: "bad", Destination: "denied"},
			"a quota":                     {ID: "bad", Destination: "busy"},
			"a fault of Pub/Sub":          {ID: "bad", Destination: "broken"},
		},
	}
}

func stored(srv *pstest.Server) []brokertest.Message {
	var messages []brokertest.Message
	for _, msg := range srv.Messages() {
		m := brokertest.Message{
			ID: msg.Attributes[broker.HeaderID], Type: msg.Attributes[broker.HeaderType], OrderingKey: msg.OrderingKey,
			Header: http.Header{}, Payload: string(msg.Data),
		}
		for name, value := range msg.Attributes {
			if name != broker.HeaderID && name != broker.HeaderType {
				m.Header.Set(name, value)
			}
		}
		messages = append(messages, m)
	}
	return messages
}

func consume(ctx context.Context, address, source string, receive broker.Receive) error {
	client, err := connect(context.WithoutCancel(ctx), address)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	return client.Subscriber(subscription).Receive(ctx, redopubsub.Handler(source, receive))
}

func TestBroker(t *testing.T) { brokertest.Run(t, open) }

func TestADestinationIsANameOrAFullName(t *testing.T) {
	srv, client, _ := serve(t)
	publisher, err := redopubsub.NewPublisher(client)
	require.NoError(t, err)
	for _, name := range []string{"refunds", topic} {
		require.NoError(t, publisher.Publish(t.Context(), outbox.Event{ID: name, Destination: name}))
	}
	require.Len(t, srv.Messages(), 2)
}

func TestOneLayerRetries(t *testing.T) {
	l := &limits{}
	_, client, _ := serve(t, pstest.ServerReactorOption{FuncName: "Publish", Reactor: l})
	publisher, err := redopubsub.NewPublisher(client)
	require.NoError(t, err)
	require.Error(t, publisher.Publish(t.Context(), outbox.Event{ID: "1", Destination: "broken"}))
	require.EqualValues(t, 1, l.requests.Load())
}

// The library sends acknowledgements in batches, in order. When that of the second message has arrived, an earlier one
// of the first would have too.
func TestAMessageIsNotAcknowledgedWhileItIsHandled(t *testing.T) {
	srv, client, _ := serve(t)
	acks := func(payload string) int {
		for _, m := range srv.Messages() {
			if string(m.Data) == payload {
				return m.Acks
			}
		}
		return -1
	}
	ctx, cancel := context.WithCancel(t.Context())
	started := make(chan struct{})
	srv.Publish(topic, []byte("first"), nil)
	go func() {
		<-started
		srv.Publish(topic, []byte("second"), nil)
	}()
	receive := func(_ context.Context, ev inbox.Event) (inbox.Receipt, error) {
		if string(ev.Payload) == "first" {
			close(started)
			assert.Eventually(t, func() bool { return acks("second") == 1 }, 30*time.Second, 10*time.Millisecond)
			assert.Zero(t, acks("first"))
			cancel()
		}
		return inbox.Receipt{}, nil
	}
	require.NoError(t, client.Subscriber(subscription).Receive(ctx, redopubsub.Handler("shop", receive)))
	require.Equal(t, 1, acks("first"))
}

// A refused event goes back, so that the subscription's own rules end it.
func TestARefusedEventIsReturned(t *testing.T) {
	srv, client, _ := serve(t)
	events, err := inbox.New(memstore.New())
	require.NoError(t, err)
	srv.Publish(topic, make([]byte, inbox.MaxPayload+1), nil)
	ctx, cancel := context.WithCancel(t.Context())
	times := 0
	receive := func(ctx context.Context, ev inbox.Event) (inbox.Receipt, error) {
		if times++; times == 2 {
			cancel()
		}
		return events.Receive(ctx, ev, func(context.Context, inbox.Event) error { return nil })
	}
	require.NoError(t, client.Subscriber(subscription).Receive(ctx, redopubsub.Handler("shop", receive)))
	require.GreaterOrEqual(t, times, 2, "Pub/Sub delivers it again")
	require.Zero(t, srv.Messages()[0].Acks)
}

func TestNewPublisherRefusesNil(t *testing.T) {
	_, err := redopubsub.NewPublisher(nil)
	require.ErrorContains(t, err, "the client is nil")
}
