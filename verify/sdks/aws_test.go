package sdks

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/stretchr/testify/require"

	"github.com/redo-go/redo"
	"github.com/redo-go/redo/taxonomy"
)

// awsProfile describes an AWS service whose client token is in the payload. X-Amz-Target names the action of a JSON
// service, so that it belongs to the fingerprint.
//
// AWS signs the body (SigV4). A body that redo restores from the store is sent with the signature of the second
// call's body, so both must be equal. The caller therefore gives the client token, and the same input for the same
// operation. The SDK makes a token if the caller gives none, and the second call is then refused as another
// payload. WithFingerprint does not help here: the signature would not match the restored body.
var awsProfile = redo.Profile{Name: "aws", KeyInBody: true, StoredHeaders: []string{"X-Amz-Target"}}

// secretsSDK creates a secret through a service with the JSON protocol. aws-sdk-go-v2 sets no GetBody.
var secretsSDK = sdk{
	name: "aws-sdk-go-v2, secretsmanager",
	call: func(ctx context.Context, to target) (string, error) {
		out, err := secretsClient(to).CreateSecret(ctx, &secretsmanager.CreateSecretInput{
			Name: aws.String("redo"), SecretString: aws.String("s3cret"), ClientRequestToken: aws.String(to.token),
		})
		if err != nil {
			return "", err
		}
		return aws.ToString(out.VersionId), nil
	},
	options: []redo.Option{redo.WithProfile(awsProfile)},
	key: func(_ *http.Request, body []byte) string {
		var in struct{ ClientRequestToken string }
		_ = json.Unmarshal(body, &in)
		return in.ClientRequestToken
	},
	check: func(r *http.Request, body []byte) error { return checkSignature(r, body, "secretsmanager") },
	respond: func(id string, _ *http.Request, _ []byte) (string, string) {
		return "application/x-amz-json-1.1", fmt.Sprintf(`{"Name":"redo","VersionId":%q}`, id)
	},
	retries: 2,
}

// snsSDK publishes a message to a FIFO topic through a service with the query protocol.
var snsSDK = sdk{
	name: "aws-sdk-go-v2, sns",
	call: func(ctx context.Context, to target) (string, error) {
		options := sns.Options{
			Region: awsRegion, Credentials: awsCredentials, BaseEndpoint: &to.url, HTTPClient: to.http,
		}
		if !to.retries {
			options.Retryer = aws.NopRetryer{}
		}
		out, err := sns.New(options).Publish(ctx, &sns.PublishInput{
			TopicArn: aws.String("arn:aws:sns:eu-central-1:123456789012:orders.fifo"), Message: aws.String("shipped"),
			MessageGroupId: aws.String("orders"), MessageDeduplicationId: aws.String(to.token),
		})
		if err != nil {
			return "", err
		}
		return aws.ToString(out.MessageId), nil
	},
	options: []redo.Option{redo.WithProfile(awsProfile)},
	key: func(_ *http.Request, body []byte) string {
		form, _ := url.ParseQuery(string(body))
		return form.Get("MessageDeduplicationId")
	},
	check: func(r *http.Request, body []byte) error { return checkSignature(r, body, "sns") },
	respond: func(id string, _ *http.Request, _ []byte) (string, string) {
		result := "<PublishResult><MessageId>" + id + "</MessageId></PublishResult>"
		return "text/xml", "<PublishResponse>" + result + "</PublishResponse>"
	},
	retries: 2,
}

const awsRegion = "eu-central-1"

var awsCredentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "AKIDREDO", SecretAccessKey: "redo"}, nil
})

func secretsClient(to target) *secretsmanager.Client {
	options := secretsmanager.Options{
		Region: awsRegion, Credentials: awsCredentials, BaseEndpoint: &to.url, HTTPClient: to.http,
	}
	if !to.retries {
		options.Retryer = aws.NopRetryer{}
	}
	return secretsmanager.New(options)
}

// checkSignature signs the request anew, and compares the signatures.
func checkSignature(r *http.Request, body []byte, service string) error {
	sent := r.Header.Get("Authorization")
	_, rest, _ := strings.Cut(sent, "SignedHeaders=")
	signed, _, found := strings.Cut(rest, ",")
	if !found {
		return errors.New("the request has no signature")
	}
	again, err := http.NewRequest(r.Method, "http://"+r.Host+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(signed, ";") {
		if values := r.Header.Values(name); values != nil && name != "content-length" {
			again.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil {
		return err
	}
	credentials, _ := awsCredentials(r.Context())
	hash := sha256.Sum256(body)
	text := hex.EncodeToString(hash[:])
	err = v4.NewSigner().SignHTTP(r.Context(), credentials, again, text, service, awsRegion, at)
	if err != nil {
		return err
	}
	if again.Header.Get("Authorization") != sent {
		return errors.New("the signature does not match the request")
	}
	return nil
}

// nameOfSecret is a redo.FingerprintFunc. It leaves the client token out.
func nameOfSecret(_ *http.Request, body io.Reader) ([]byte, error) {
	var in struct{ Name string }
	err := json.NewDecoder(body).Decode(&in)
	return []byte(in.Name), err
}

// The twin of the cases above: a token that the SDK makes differs on each call, and the second call is refused.
func TestClientTokenOfTheSDKRefusesTheSecondCall(t *testing.T) {
	p := newProvider(t, secretsSDK, lost)
	st := openStore(t)
	call := func() error {
		to := target{http: httpOver(secretsSDK.client(t, once, redo.WithStore(st))), url: p.URL}
		input := &secretsmanager.CreateSecretInput{Name: aws.String("redo")}
		_, err := secretsClient(to).CreateSecret(secretsSDK.named(t.Context()), input)
		return err
	}
	require.Equal(t, taxonomy.EOF, redo.CodeOf(call()))
	require.Equal(t, taxonomy.PayloadMismatch, redo.CodeOf(call()))
	require.Len(t, p.requests(), 1)
}

// A body that is restored under another call's signature is refused by the service, not sent to a second effect.
func TestRestoredBodyNeedsItsOwnSignature(t *testing.T) {
	p := newProvider(t, secretsSDK, lost)
	st := openStore(t)
	same := redo.WithFingerprint(nameOfSecret)
	var codes []taxonomy.Code
	for range 2 {
		to := target{http: httpOver(secretsSDK.client(t, once, redo.WithStore(st), same)), url: p.URL}
		input := &secretsmanager.CreateSecretInput{Name: aws.String("redo")}
		_, err := secretsClient(to).CreateSecret(secretsSDK.named(t.Context()), input)
		require.Error(t, err)
		codes = append(codes, redo.CodeOf(err))
	}
	require.Equal(t, []taxonomy.Code{taxonomy.EOF, ""}, codes, "the second error is the SDK's own, of a 403")
	require.Equal(t, 1, p.effects())
}

// Two actions of a JSON service can have the same URL and the same body.
func TestOtherActionUnderTheNameIsRefused(t *testing.T) {
	s := secretsSDK
	s.key = func(r *http.Request, _ []byte) string { return r.Header.Get("X-Amz-Target") }
	p := newProvider(t, s)
	client := secretsClient(target{http: httpOver(s.client(t, once, redo.WithStore(openStore(t)))), url: p.URL})
	id := aws.String("redo")
	_, err := client.DeleteSecret(s.named(t.Context()), &secretsmanager.DeleteSecretInput{SecretId: id})
	require.NoError(t, err)
	_, err = client.RestoreSecret(s.named(t.Context()), &secretsmanager.RestoreSecretInput{SecretId: id})
	require.Equal(t, taxonomy.PayloadMismatch, redo.CodeOf(err))
	require.Len(t, p.requests(), 1)
	ctx := redo.WithOperation(t.Context(), "restore")
	_, err = client.RestoreSecret(ctx, &secretsmanager.RestoreSecretInput{SecretId: id})
	require.NoError(t, err)
	require.Len(t, p.requests(), 2)
}
