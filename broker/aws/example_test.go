package redoaws_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	redoaws "github.com/redo-go/redo/broker/aws"
	"github.com/redo-go/redo/inbox"
	"github.com/redo-go/redo/outbox"
	"github.com/redo-go/redo/store/memstore"
)

// An event goes through a FIFO queue to an inbox.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	aws := httptest.NewServer(queueOfOne(stop)) // yours: AWS
	defer aws.Close()
	client := queues(aws.URL) // yours: sqs.NewFromConfig(cfg)
	queueURL := "https://sqs.eu-central-1.amazonaws.com/123456789012/refunds.fifo"

	publisher, err := redoaws.NewSQS(client)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = publisher.Publish(ctx, outbox.Event{
		ID: "refund:re_1", Destination: queueURL, OrderingKey: "customer-7", Payload: []byte(`{"refund":"re_1"}`),
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	events, err := inbox.New(memstore.New())
	if err != nil {
		fmt.Println(err)
		return
	}
	handle := func(_ context.Context, ev inbox.Event) error {
		fmt.Printf("handling %s of %s: %s\n", ev.ID, ev.Source, ev.Payload)
		return nil
	}
	receive := func(ctx context.Context, ev inbox.Event) (inbox.Receipt, error) {
		return events.Receive(ctx, ev, handle)
	}
	consumer, err := redoaws.NewConsumer(client, queueURL, "shop", receive)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := consumer.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// stored in group customer-7 under refund:re_1
	// handling refund:re_1 of shop: {"refund":"re_1"}
	// deleted
}

// queueOfOne is a queue for one message.
func queueOfOne(deleted func()) http.HandlerFunc {
	var stored map[string]any
	return func(w http.ResponseWriter, r *http.Request) {
		var in map[string]any
		_ = json.NewDecoder(r.Body).Decode(&in)
		switch r.Header.Get("X-Amz-Target") {
		case "AmazonSQS.SendMessage":
			stored = map[string]any{
				"MessageId": "1", "ReceiptHandle": "r", "Body": in["MessageBody"],
				"MessageAttributes": in["MessageAttributes"],
			}
			fmt.Println("stored in group", in["MessageGroupId"], "under", in["MessageDeduplicationId"])
			respond(w, http.StatusOK, "", `{"MessageId":"1"}`)
		case "AmazonSQS.ReceiveMessage":
			out, _ := json.Marshal(map[string]any{"Messages": []any{stored}})
			respond(w, http.StatusOK, "", string(out))
		case "AmazonSQS.DeleteMessage":
			fmt.Println("deleted")
			respond(w, http.StatusOK, "", `{}`)
			deleted()
		}
	}
}
