package redopubsub_test

import (
	"context"
	"fmt"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"

	redopubsub "github.com/redo-go/redo/broker/pubsub"
	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store/memstore"
)

// An event that is published twice is two messages, and is handled once.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	srv := pstest.NewServer() // yours: Pub/Sub
	defer srv.Close()
	client, err := connect(ctx, srv.Addr) // yours: pubsub.NewClient(ctx, "shop")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	if _, err := client.TopicAdminClient.CreateTopic(ctx, &pubsubpb.Topic{Name: topic}); err != nil {
		fmt.Println(err)
		return
	}
	_, err = client.SubscriptionAdminClient.CreateSubscription(ctx, &pubsubpb.Subscription{
		Name: "projects/shop/subscriptions/ledger", Topic: "projects/shop/topics/refunds", EnableMessageOrdering: true,
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	publisher, err := redopubsub.NewPublisher(client)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, id := range []string{"refund:re_1", "refund:re_1", "refund:re_2"} {
		err := publisher.Publish(ctx, outbox.Event{ID: id, Destination: "refunds", OrderingKey: "customer-7"})
		if err != nil {
			fmt.Println(err)
			return
		}
	}

	events, err := inbox.New(memstore.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	handle := func(_ context.Context, ev inbox.Event) error {
		fmt.Println("handling", ev.ID, "of", ev.Source)
		if ev.ID == "refund:re_2" {
			stop()
		}
		return nil
	}
	receive := func(ctx context.Context, ev inbox.Event) (inbox.Receipt, error) {
		return events.Receive(ctx, ev, handle)
	}
	if err := client.Subscriber("ledger").Receive(ctx, redopubsub.Handler("shop", receive)); err != nil {
		fmt.Println(err)
	}
	// Output:
	// handling refund:re_1 of shop
	// handling refund:re_2 of shop
}
