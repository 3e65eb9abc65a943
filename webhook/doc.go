// Package webhook signs and verifies deliveries as Standard Webhooks 1.0.0 has it: the headers webhook-id,
// webhook-timestamp and webhook-signature, and a signature over id.timestamp.body.
//
// Most programs need two calls. Who receives wraps its handler in [Verifier.Handler], or calls [Verifier.Verify];
// who sends puts [Signer.Transport] under its client:
//
//	verifier, err := webhook.NewVerifier([]webhook.Secret{secret})
//	mux.Handle("POST /webhooks/bank", verifier.Handler(receive))
//
//	signer, err := webhook.NewSigner([]webhook.Secret{secret})
//	client, err := redo.New(redo.WithTransport(signer.Transport(nil)))
//
// # What is promised
//
// A delivery that verifies was made by somebody who holds one of the secrets, with this id and these bytes, and not
// longer ago than the tolerance. That says nothing about how often it came: a delivery may be sent again by its
// producer, and by anybody who saw it within the tolerance, so deduplicate on its id.
//
// A signer signs each attempt anew: the timestamp is the attempt's, the id stays. Errors say which header is
// wrong and why. Neither they nor any way of printing a [Secret] show a secret or a signature that would have been
// right.
//
// # Secrets
//
// A whsec_ secret is shared by both sides (HMAC-SHA256, version v1). A whsk_ key signs and its whpk_ key verifies
// (Ed25519, version v1a): a consumer that holds the public key alone can't sign. Use a secret for one endpoint only.
//
// To rotate, let the consumer verify with the new and the old secret, then let the producer sign with both, then with
// the new one, and take the old one out last. [Delivery.Secret] tells which one is still in use. Signatures of
// versions that the secrets don't cover are ignored.
//
// # Bodies
//
// A body has to be read before its signature can be checked. It is read up to [MaxBody], into a buffer of at most 64
// KiB that grows as the data arrives, whatever Content-Length announces. A sender that is slow still occupies a
// connection: set ReadHeaderTimeout, ReadTimeout and IdleTimeout of the http.Server, which has no time limits by
// default.
//
// Everything in this package may be used concurrently.
package webhook
