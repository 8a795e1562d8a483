// Package receiver is the receiving end of a webhook, for trying, showing and testing: it takes what Belfry delivers,
// alone or in batches, and hands each attempt on as an Arrival, with the instant at which it came.
//
// It checks nothing by itself; Verify is there for who knows the queue's secrets. A receiver in production verifies the
// signature, drops repeats by webhook-id and refuses fences lower than one it has seen; one that always did so here
// would hide exactly what it is there to show.
package receiver
