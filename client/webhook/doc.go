// Package webhook verifies what Belfry delivers to a receiver: that the signature is right, that it was sent just
// now, and that its sender has not been superseded. It needs only the standard library.
//
//	verifier, err := webhook.New(webhook.Config{Secrets: []string{os.Getenv("ORDERS_SECRET")}})
//	http.Handle("/orders", verifier.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
//		d := webhook.FromContext(r.Context())
//		err := closeOrder(r.Context(), d.ID, d.Events[0].Task) // dedupe on d.ID
//		…
//	})))
//
// # What is checked
//
//   - The signature is that of Standard Webhooks: HMAC-SHA256 over webhook-id, webhook-timestamp and the body. One of
//     the signatures must be right under one of the secrets, so that a secret can be changed without a gap. The
//     comparison takes the same time wherever two signatures differ.
//   - The timestamp is at most Config.Tolerance from the receiver's clock, so that a request cannot be sent again
//     later.
//   - The fence is not lower than the highest one that was seen for the task. A sender that was cut off from its
//     cluster may send late, beside the one that took its place: its fence is lower, and so it is refused.
//
// The signature covers the id, the time and the body alone. The other headers are as trustworthy as the network: the
// fence keeps out a late sender, and not one that changes what it relays.
//
// # What is left to the receiver
//
// Attempts of one task carry one ID, and a repeat of one that succeeded comes with the same ID: dedupe on it.
package webhook
