// Package receiver is the receiving end of a webhook, for trying, showing and testing. It accepts Belfry's deliveries,
// alone or in batches, and passes each attempt on as an Arrival with the instant of its arrival.
//
// The handler checks nothing; a caller that knows the queue's secrets uses Verify. A receiver in production verifies
// the signature, drops repeats by webhook-id, and refuses a fence lower than an earlier one. Such checks would hide the
// very behaviour that this package shows.
package receiver
