// Package client is the Go client of Belfry. It uses only the public HTTP interface.
//
//	Schedule, Cancel, Touch, FireNow, Patch   change one task
//	Get, List, Pages                          read tasks
//	Batch, ScheduleMany, BatchLines           change many tasks
//	Consume; Lease, Settle                    handle the tasks of a queue that is pulled
//	PutQueue, PatchQueue, PauseQueue, …       set and read the policies of queues
//	Replay, DropDead                          handle dead letters
//	BeginBulk, CountBulk                      make one call on every task or schedule that passes a filter
//	PutSchedule, FireSchedule, Backfill, …    run a task again and again, by a rule that repeats
//	Cluster, Nodes, Ready                     read the state of the cluster and of a node
//	Wheel, Activity                           count the tasks that wait, and the events of the last minutes
//	Advance                                   set the clock of a node in dev mode ahead
//	Begin, Preview, Operation                 change the shape of the cluster
//	CreateKey, RotateKey, RevokeKey, WhoAmI   manage API keys
//	PutNamespace, DeleteNamespace, …          manage namespaces and their quotas
//
// The package needs only the standard library and this module's packages view and contract, so that it adds no further
// dependencies to a program.
//
//	c, err := client.New(client.FromEnv()) // BELFRY_ADDR, BELFRY_KEY
//	change, err := c.Schedule(ctx, client.Task{
//		ID:      "order-1042-close",
//		Delay:   30 * time.Minute,
//		Payload: json.RawMessage(`{"order":1042}`),
//		Target:  &client.Target{URL: "https://shop.example/close"},
//	})
//
// One Client is meant for a whole program: the more goroutines call at once, the less each call costs.
//
// # Repeating safely
//
// Every changing call carries an idempotency key that the service remembers with the task. So the client may repeat
// calls whose connection broke, that found no leader (503), whose outcome is unknown (504) or that came too fast (429).
// It repeats them at another address if there is one, until the call's time is up. The caller sees one call that
// happened once.
//
// Each call has a key of its own. A program that calls Schedule again, after a restart or for a repeated message,
// replaces the task, and schedules it once more if it was delivered. IfAbsent schedules once:
//
//	_, err := c.Schedule(ctx, task, client.IfAbsent())
//	if errors.Is(err, client.ErrPrecondition) {
//		err = nil // an earlier call scheduled it
//	}
//
// WithKey repeats one call: the repeat gets the first call's answer, until two other calls have changed the task. Both
// options hold as long as the task or its tombstone lives; the queue's KeepDone is the tombstone's time.
//
// A lease call is different: a repeat leases other tasks, and the tasks of a lost answer return to their queue when the
// lease ends. So a lease call carries no key, which net/http would take as leave to repeat the call by itself. A settle
// carries no key either, since its receipts make a repeat safe.
//
// # Gathering
//
//   - Schedule, Cancel, Touch and FireNow are gathered. A call goes out at once if no request is on its way to the same
//     node; the calls made during a request form the next one, as lines of a batch. No call ever waits for others, so a
//     lone call is as fast as possible, and a hundred at once share the cost of a request.
//   - A call is answered, refused, repeated and timed as if it were alone. A caller whose context ends returns at once.
//     The error tells whether its line may have gone out by then (ErrUnknown). Two calls of one goroutine keep their
//     order, since the goroutine waits for the first.
//   - A slow request gives its place to the next, so that a request that hangs does not hold up the others. A shard
//     that fails or is slow travels alone until it answers quickly: batches are answered in order, and one line without
//     a leader would hold up all later lines.
//   - Some calls are requests of their own: Patch; a Schedule with a caller's key but no ID, since the service derives
//     the id from the key; a payload with line breaks, which a line cannot carry byte for byte; a call with ReturnTask.
//     Config.SingleCalls makes all calls requests of their own.
//
// Why not:
//
//   - A timer that waits for more calls: it costs a lone call its time, and a busy client needs none.
//   - A stream that stays open: it holds one of the node's places for batches during the program's whole life, ends at
//     every proxy, and leaves the outcome of its lines open. Once requests are shared, little remains to be saved.
//
// # Finding the leaders
//
//   - Any node accepts any call and passes it on. A call to the leader itself saves the hop. So the client reads from
//     /v1/map the slots of each shard, its leader, and the leader's address. It does so in the background, at the
//     first use and when an answer shows a change: the answer to every batch names the version of the node's map in its
//     header.
//   - The client works without this knowledge. It uses a leader's address only after /readyz there has confirmed that
//     node of that cluster, since an announced address may lead to another machine, or to none, from the client's
//     network. Until then, and when the address fails, calls go to the configured addresses, and the client retries the
//     leader's address at growing intervals.
//   - With Config.FixedAddrs, or with addresses that have a path, the client uses the configured addresses only. Given
//     https:// addresses, it uses no leader's http:// address.
//   - Every key may read /v1/map, and the answer names the key's own namespace, which decides with a task's id on its
//     slot. Config.Namespace goes before it.
//
// # Schedules
//
// A Schedule runs a task again and again:
//
//	_, err := c.PutSchedule(ctx, client.Schedule{
//		ID:     "report",
//		Repeat: client.Repeat{Cron: []string{"0 9 * * MON-FRI"}, TimeZone: "Europe/Berlin"},
//		Task:   client.Task{Queue: "reports", Target: &client.Target{URL: "https://shop.example/report"}},
//	})
//
// A schedule works as follows:
//
//   - An occurrence is a task with the id report@7, and Get, List, Cancel and Consume treat it as any other.
//   - Misfire says what runs after an outage, and Overlap what happens while an earlier occurrence still runs.
//     Occurrences lists the last ones, also those that did not run, with the reason.
//   - PutSchedule replaces all settings, PatchSchedule some of them. The numbers of the occurrences go on.
//   - The method Schedule is about one task, which fires once.
//
// # Keys, namespaces and TLS
//
//	security, err := client.LoadTLS("ca.pem", "", "")
//	c, err := client.New(client.Config{
//		Addrs:     []string{"https://belfry.example:8400"},
//		KeyFile:   "/run/secrets/belfry.key",
//		Namespace: "orders",
//		TLS:       security,
//	})
//
// Every call of this client carries the key:
//
//   - A key file that was replaced, after a rotation or for a fresh token, is read again.
//   - A redirect to another scheme, host or port is not followed. It is an error that names the other host. net/http
//     would send the key to another port, to a subdomain, and from https to http.
//   - The address of a leader gets the key only after it has answered as that node.
//   - No error shows the key, also if a proxy echoes the request. fmt, log/slog and encoding/json write *** for a
//     Secret.
//   - With Config.Namespace, all calls about tasks, schedules and queues go to that namespace. The calls about the
//     cluster, keys and namespaces are the same in every namespace.
//   - ErrUnauthenticated, ErrForbidden and ErrQuotaExceeded match refusals. A call waits as long as an exceeded rate
//     asks for, and fails at once on a quota that time does not free.
//
// Why does Config.Key take a Secret, and not a string? A program that prints its settings would print the key.
//
// # Consuming
//
// Consume runs a handler for each task of a queue that is pulled:
//
//	err := c.Consume(ctx, "reports", client.ConsumeOptions{Concurrency: 100},
//		func(ctx context.Context, task *client.Leased) error { return write(ctx, task.Payload) })
//
// A consumer works as follows:
//
//   - Tasks come over the service's stream, and not by lease calls: a due task finds the connection open. Between two
//     lease calls a due task would wait for a round trip, and each call costs a request.
//   - The client asks for as many tasks as there are free handlers, so that each task begins at once, and none waits
//     here while another consumer could have it.
//   - A consumer has one stream, from one node. Any node brings the tasks of all shards, and tasks asked for at two
//     nodes are given back more often.
//   - Outcomes are settled by calls beside the stream, gathered as above: they are not lost with the stream, and can go
//     through another node.
//   - Leases are extended when half of their time is over. A lease that cannot be extended counts as lost when it ends
//     by this machine's monotonic clock, at the latest. The service's log decides on the lease, and refuses a failure
//     that came too late. A success is reported even then: it spares the next attempt.
//
// # See also
//
// Package webhook verifies deliveries for receivers: signatures, timestamps and fences.
package client
