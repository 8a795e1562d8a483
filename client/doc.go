// Package client is the Go client of Belfry: it schedules, cancels, changes and reads tasks, leases and settles them,
// and says how queues are handled, over the public HTTP interface, and nothing else. It needs only the standard
// library and this module's contract package, so that depending on it costs a program nothing.
//
//	c, err := client.New(client.Config{Addrs: []string{"http://127.0.0.1:8400"}})
//	change, err := c.Schedule(ctx, client.Task{
//		ID:      "order-1042-close",
//		Delay:   30 * time.Minute,
//		Payload: json.RawMessage(`{"order":1042}`),
//		Target:  &client.Target{URL: "https://shop.example/close"},
//	})
//
// One Client is meant for a whole program: the more of its goroutines call at once, the less each call costs.
//
// # Repeating safely
//
// Every changing call carries an idempotency key that the service remembers with the task, so the client repeats calls
// whose connection broke, that found no leader (503), whose outcome is unknown (504) or that came too fast (429), at
// another address if there is one, until the call's time is up. The caller sees one call that happened once.
//
// Each call has a key of its own. A program that calls Schedule again, because it was started anew or a message came
// twice, replaces the task, and schedules it once more if it was delivered. IfAbsent schedules once:
//
//	_, err := c.Schedule(ctx, task, client.IfAbsent())
//	if errors.Is(err, client.ErrPrecondition) {
//		err = nil // an earlier call scheduled it
//	}
//
// WithKey repeats one call: it gets the answer of the first, until two other calls have changed the task. Both hold as
// long as the task or its tombstone lives, which is the queue's KeepDone.
//
// A lease is no such call: a repeat leases other tasks, and those of an answer that was lost come back to their queue
// when the lease ends. So it carries no key, which net/http would take for leave to send it again by itself.
//
// # Gathering
//
// Schedule, Cancel, Touch and FireNow are gathered: a call goes out at once if nothing is on its way to the same node,
// and what is called meanwhile is the next request, as lines of a batch. Nothing ever waits for company, so a call
// alone is as quick as it can be; a hundred at once share what a request costs. A call is answered, refused, repeated
// and timed as if it were alone. A caller whose context ends leaves at once; its line may have gone out by then, which
// the error says (ErrUnknown), or not. Two calls of one goroutine keep their order, since it waits for the first.
//
// A request that takes long gives its place to the next, so that one that hangs does not hold up the others. A shard
// that fails or is slow travels alone until it answers soon: batches are answered in order, and one line without a
// leader would keep back all those behind it.
//
// Some calls are requests of their own nevertheless: Patch; a Schedule without an ID but with a key of the caller's,
// since the service derives the id from the key; a payload with line breaks, which a line cannot carry byte for byte;
// a call whose caller wants the whole task back (ReturnTask). Config.SingleCalls makes all of them so.
//
// Turned down: a timer that waits for more calls to come (it costs the lone call its time, and the busy client needs
// none), and a stream that stays open (it holds one of the node's places for batches as long as the program lives,
// ends at every proxy, and leaves open what became of its lines; once requests are shared, little remains to be saved).
//
// # Knowing the leaders
//
// Any node takes any call and passes it on; a client that asks the leader itself spares the hop. So the client learns
// from /v1/cluster which slots belong to which shard, who leads it and where that node is, in the background, when it
// is first used and when an answer shows that this has changed: every batch says in its head which map its node
// believes in. What is learned is never needed. A leader's address is used only once it has said over /readyz that it
// is that node of that cluster, since an address that nodes give may mean another machine, or none, where the client
// is; until then, and when it fails, calls go to the configured addresses, and it is asked again ever more seldom. With
// Config.FixedAddrs, and where the addresses are not plain http://host:port, only the configured ones are ever asked.
//
// # Consuming
//
// Consume runs a handler for each task of a queue that is pulled:
//
//	err := c.Consume(ctx, "reports", client.ConsumeOptions{Concurrency: 100},
//		func(ctx context.Context, task *client.Leased) error { return write(ctx, task.Payload) })
//
// Tasks come over the service's stream, and not by lease calls: a due task is on its way when it is due, and finds the
// connection open. Between two lease calls there is the time of a round trip in which a task that comes due waits, and
// each costs a request. The client asks for as many tasks as there are handlers free, so that each that comes begins at
// once; none waits here while another consumer could have it. It keeps to one stream, from one node: any node brings
// the tasks of all shards, and what is asked for at two is given back more often.
//
// Outcomes are settled by calls beside the stream, gathered as above: they are not lost with the stream, and can go
// through another node. Leases are extended when half of them is over. A lease that cannot be extended counts as lost
// when it ends by this machine's monotonic clock, at the latest; the service's log decides what really holds, and
// refuses a failure that came too late. A success is reported nevertheless: it spares the next attempt.
//
// # What it leaves to others
//
// Package webhook verifies deliveries for receivers: signatures, timestamps and fences.
package client
