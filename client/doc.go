// Package client is the Go client of Belfry: it schedules, cancels, changes and reads tasks, leases and settles them,
// and says how queues are handled, over the public HTTP interface, and nothing else. It needs only the standard
// library, so that depending on it costs a program nothing.
//
// What it adds to plain HTTP is that a call may be repeated safely. Every changing call carries an idempotency key
// that the service remembers with the task, so the client repeats calls whose connection broke, that found no leader
// (503), whose outcome is unknown (504) or that came too fast (429), on the next address if there is one, until the
// call's time is up. The caller sees one call that happened once.
//
//	c, err := client.New(client.Config{Addrs: []string{"http://127.0.0.1:8400"}})
//	task, err := c.Schedule(ctx, client.Task{
//		ID:      "order-1042-close",
//		Delay:   30 * time.Minute,
//		Payload: json.RawMessage(`{"order":1042}`),
//		Target:  &client.Target{URL: "https://shop.example/close"},
//	})
//
// A lease is no such call: a repeat leases other tasks, and those of an answer that was lost come back to their queue
// when the lease ends.
//
// It leaves out what belongs to a receiver (checking signatures, refusing old fences).
// Any node takes any call, so it does not need to know which node leads which shard; the addresses are equal, and
// the one that worked last is used first.
package client
