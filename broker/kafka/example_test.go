package redokafka_test

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	redokafka "github.com/redo-go/redo/broker/kafka"
	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store/memstore"
)

// An event that is published twice is two records, and is handled once.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	cluster, err := kfake.NewCluster(kfake.SeedTopics(3, "refunds")) // yours: Kafka
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cluster.Close()
	addresses := cluster.ListenAddrs()

	client, err := kgo.NewClient(kgo.SeedBrokers(addresses...))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	publisher, err := redokafka.NewPublisher(client)
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
	consumer, err := redokafka.NewConsumer("shop", receive,
		kgo.SeedBrokers(addresses...), kgo.ConsumerGroup("ledger"), kgo.ConsumeTopics("refunds"))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := consumer.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// handling refund:re_1 of shop
	// handling refund:re_2 of shop
}
