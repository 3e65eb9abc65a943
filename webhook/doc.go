// Package webhook signs and verifies deliveries by Standard Webhooks 1.0.0: the headers webhook-id, webhook-timestamp
// and webhook-signature, and a signature over id.timestamp.body. It also protects the producer's network from
// destinations that lead into it.
//
// Most programs need two calls. A consumer wraps its handler in [Verifier.Handler], or calls [Verifier.Verify]. A
// producer sends through [Signer.Transport]:
//
//	verifier, err := webhook.NewVerifier([]webhook.Secret{secret})
//	mux.Handle("POST /webhooks/bank", verifier.Handler(receive))
//
//	signer, err := webhook.NewSigner([]webhook.Secret{secret})
//	client, err := redo.New(redo.WithTransport(signer.Transport(nil)))
//
// # Promises
//
// The sender of a delivery that verifies holds one of the secrets, and sent this id and these bytes within the
// tolerance. The delivery may still be a copy: its producer may send it again, and so may anybody who saw it.
// Deduplicate on its id.
//
// A signer signs each attempt with its own timestamp and the same id. Errors name the header that is wrong, and the
// reason. Neither an error nor a printed [Secret] shows a secret or a valid signature.
//
// # Addresses
//
// Signer.Transport connects to public addresses only, unless you give it another base. [Transport] makes such a base
// with options, and [Dialer] is the part that checks addresses.
//
// # Secrets
//
// A whsec_ secret is shared by both sides (HMAC-SHA256, version v1). A whsk_ key signs and its whpk_ key verifies
// (Ed25519, version v1a), so a consumer can't sign. Use a secret for one endpoint only. [NewSignerFor] and
// [NewVerifierFor] find the secrets of each request. [External] is for keys in a KMS. [JWKS] publishes public keys,
// and a [KeySet] reads them.
//
// Rotate a secret in these steps. [Delivery.Secret] shows which secret is still in use.
//
//   - The consumer verifies with the new and the old secret.
//   - The producer signs with both.
//   - The producer signs with the new one.
//   - The consumer drops the old one.
//
// Signatures of versions that the secrets don't cover are ignored.
//
// # Clocks
//
// A timestamp outside of the tolerance is refused with [ClockSkew], and the producer may retry. The error names both
// clocks.
//
// # Bodies
//
// A body is read before its signature can be checked. It is read up to [MaxBody], into a buffer of at most 64 KiB that
// grows as the data arrives. A slow sender still occupies a connection. Set ReadHeaderTimeout, ReadTimeout and
// IdleTimeout of the http.Server, which has no time limits by default.
//
// Everything in this package may be used concurrently.
package webhook
