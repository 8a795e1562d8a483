// Package webhook verifies Belfry's deliveries at the receiver.
//
//	signature   the sender knows a secret of the queue
//	timestamp   the request was sent just now
//	fence       the sender has not been superseded
//
// It needs only the standard library.
//
//	verifier, err := webhook.New(webhook.Config{Secrets: []string{os.Getenv("ORDERS_SECRET")}})
//	http.Handle("/orders", verifier.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
//		d := webhook.FromContext(r.Context())
//		err := closeOrder(r.Context(), d.ID, d.Events[0].Task) // dedupe on d.ID
//		…
//	})))
//
// # Checks
//
//   - The signature is that of Standard Webhooks: HMAC-SHA256 over webhook-id, webhook-timestamp and the body. One of
//     the signatures must be right under one of the secrets, so that a secret can be changed without a gap. The
//     comparison takes the same time wherever two signatures differ.
//   - The timestamp is at most Config.Tolerance from the receiver's clock, so that a request cannot be sent again
//     later.
//   - The fence is not lower than the highest fence that the receiver has seen for the task. A sender that is cut off
//     from its cluster may send late, after another node has taken its place. Its fence is lower, so the request is
//     refused.
//
// The signature covers the id, the timestamp and the body alone. The other headers are as trustworthy as the network:
// the fence keeps out a late sender, but not a proxy that changes the headers.
//
// # Repeats
//
// The receiver must drop repeats by the delivery's ID. All attempts of one task carry one ID, even a repeat of an
// attempt that succeeded.
package webhook
