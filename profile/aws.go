package profile

import (
	"time"

	"github.com/redo-go/redo"
)

// AWS describes the AWS services that take a client token in the body or in the query. Its name is ClientToken,
// clientToken or ClientRequestToken: put the operation's key there. Length and retention depend on the service. EC2's
// RunInstances takes 64 characters. DynamoDB keeps a token for 10 minutes, Verified Permissions for 8 hours, Cloud
// Control for 36 hours. The profile has the shortest that are known: set those of your service.
// IdempotentParameterMismatch and its spellings report another payload, and TransactionInProgressException a request
// that is still running. Some services report a mismatch as ConflictException, which has other meanings too: add it
// to Codes for such a service. A replay has no mark.
//
// Source: https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html
// Source: https://docs.aws.amazon.com/sdk-for-kotlin/api/latest/ec2/ (RunInstances)
// Source: https://docs.aws.amazon.com/sdk-for-kotlin/api/latest/dynamodb/ (TransactWriteItems)
// Source: https://docs.aws.amazon.com/sdk-for-kotlin/api/latest/verifiedpermissions/ (CreatePolicy)
// Source: https://docs.aws.amazon.com/sdk-for-kotlin/api/latest/cloudcontrol/ (UpdateResource)
var AWS = redo.Profile{
	Name:          "aws",
	KeyInBody:     true,
	MaxKey:        64,
	Retention:     10 * time.Minute,
	StoredHeaders: []string{"X-Amz-Target"},
}
