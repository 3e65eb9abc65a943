// Aws publishes a message to a FIFO topic of SNS through aws-sdk-go-v2 over redo. AWS reads the key from the payload,
// so the caller sets it there. Here it is the operation's name. If the SDK made it, it would differ in each call.
//
//	$ go run ./verify/sdks/aws
//	message 1
//	message 1
//	SNS received 2 requests and published 1 message
//
// With a topic's ARN as its argument it uses the region and the credentials in AWS_REGION, AWS_ACCESS_KEY_ID and
// AWS_SECRET_ACCESS_KEY.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sns"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/profile"
	"github.com/redo-go/redo/servertest"
	"github.com/redo-go/redo/store/boltstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	run := demo
	if len(os.Args) > 1 {
		run = func(ctx context.Context) error { return publish(ctx, nil, os.Args[1], "messages.redo") }
	}
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

// credentials are a server's in an environment. A program in AWS takes those of its role, from the package config.
func credentials(context.Context) (aws.Credentials, error) {
	id, secret := os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY")
	return aws.Credentials{AccessKeyID: id, SecretAccessKey: secret}, nil
}

// publish publishes a message once, however often it is called. The endpoint is nil for the region's own.
func publish(ctx context.Context, endpoint *string, topic, file string) error {
	ops, err := boltstore.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = ops.Close() }()
	fifo := profile.AWS
	fifo.Retention = 5 * time.Minute // for so long SNS recognizes a MessageDeduplicationId
	client, err := redo.New(redo.WithStore(ops), redo.WithProfile(fifo))
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	sdk := sns.New(sns.Options{
		Region: os.Getenv("AWS_REGION"), BaseEndpoint: endpoint, Credentials: aws.CredentialsProviderFunc(credentials),
		HTTPClient: &http.Client{Transport: client.Transport()},
		Retryer:    aws.NopRetryer{}, // one layer retries
	})
	const name = "shipped:order-1138"
	ctx, report := redo.WithReport(redo.WithOperation(ctx, name))
	out, err := sdk.Publish(ctx, &sns.PublishInput{
		TopicArn: &topic, MessageGroupId: aws.String("order-1138"), MessageDeduplicationId: aws.String(name),
		Message: aws.String(`{"order":1138,"state":"shipped"}`),
	})
	if e := report.Err(); e != nil {
		return fmt.Errorf("effect %s, safe to run again: %t: %w", e.Effect, redo.SafeToRetry(e), errors.Join(e, err))
	}
	if err != nil {
		return err
	}
	fmt.Println("message", aws.ToString(out.MessageId))
	return nil
}

// demo runs publish twice against a local stand-in for SNS, which loses its first response.
func demo(ctx context.Context) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var published sync.Map // by MessageDeduplicationId
	api, err := servertest.Serve(l, log.Printf, servertest.Bare(), servertest.ScriptNext(servertest.ResetAfterEffect()),
		servertest.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, again := published.LoadOrStore(r.FormValue("MessageDeduplicationId"), true); !again {
				_, _ = servertest.Effect(r.Context())
			}
			w.Header().Set("Content-Type", "text/xml")
			fmt.Fprint(w, "<PublishResponse><PublishResult><MessageId>1</MessageId></PublishResult></PublishResponse>")
		})))
	if err != nil {
		return err
	}
	defer api.Close()
	dir, err := os.MkdirTemp("", "redo-aws-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	topic, file := "arn:aws:sns:eu-central-1:123456789012:orders.fifo", filepath.Join(dir, "messages.redo")
	for range 2 {
		if err := publish(ctx, &api.URL, topic, file); err != nil {
			return err
		}
	}
	fmt.Printf("SNS received %d requests and published %d message\n", len(api.Requests()), api.Ledger().Total())
	return nil
}
