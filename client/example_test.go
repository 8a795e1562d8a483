package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/belfryhq/belfry/client"
)

// newClient returns a client of the examples' node. A program makes one client and shares it.
func newClient() *client.Client {
	c, err := client.New(client.Config{Addrs: []string{nodeURL()}})
	if err != nil {
		panic(err)
	}
	return c
}

// Close an unpaid order in 30 minutes.
func ExampleClient_Schedule() {
	c, ctx := newClient(), context.Background()
	defer c.Close()

	change, err := c.Schedule(ctx, client.Task{
		ID:      "order-1-close",
		Delay:   30 * time.Minute,
		Payload: json.RawMessage(`{"order": 1}`),
		Target:  &client.Target{URL: "https://shop.example/close"},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(change.ID, change.Created)
	// Output: order-1-close true
}

// The order is paid: the answer to the cancel is final.
func ExampleClient_Cancel() {
	c, ctx := newClient(), context.Background()
	defer c.Close()
	if _, err := c.Schedule(ctx, client.Task{ID: "order-2-close", Delay: 30 * time.Minute}); err != nil {
		panic(err)
	}

	outcome, err := c.Cancel(ctx, "order-2-close")
	if err != nil {
		panic(err)
	}
	fmt.Println(outcome == client.OutcomeCancelled)
	// Output: true
}

// Each heartbeat of a user starts the delay again. The task comes due 30 seconds after the last one.
func ExampleClient_Touch() {
	c, ctx := newClient(), context.Background()
	defer c.Close()
	offline := client.Task{Queue: "presence", Delay: 30 * time.Second, Payload: json.RawMessage(`{"user": 7}`)}

	for range 3 {
		change, err := c.Touch(ctx, "user-7-offline", client.Touch{Delay: 30 * time.Second, OrSchedule: &offline})
		if err != nil {
			panic(err)
		}
		fmt.Println("new:", change.Created)
	}
	// Output:
	// new: true
	// new: false
	// new: false
}

// A task without a target waits in its queue for a consumer that leases it.
func ExampleClient_Lease() {
	c, ctx := newClient(), context.Background()
	defer c.Close()
	if _, err := c.Schedule(ctx, client.Task{ID: "mail-1", Queue: "mail", Delay: time.Millisecond}); err != nil {
		panic(err)
	}

	leased, err := c.Lease(ctx, "mail", client.Demand{Max: 10, Wait: 10 * time.Second, Lease: time.Minute})
	if err != nil {
		panic(err)
	}
	for _, task := range leased {
		fmt.Println("send", task.ID)
		for _, done := range c.Settle(ctx, "mail", client.Settlement{Ack: []string{task.Receipt}}) {
			fmt.Println("acknowledged:", done.Err == nil)
		}
	}
	// Output:
	// send mail-1
	// acknowledged: true
}

// Consume leases, extends the leases of slow handlers, and acknowledges.
func ExampleClient_Consume() {
	c := newClient()
	defer c.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	task := client.Task{ID: "rating-1", Queue: "ratings", Delay: time.Millisecond, Payload: json.RawMessage(`{"order": 1}`)}
	if _, err := c.Schedule(ctx, task); err != nil {
		panic(err)
	}

	err := c.Consume(ctx, "ratings", client.ConsumeOptions{}, func(_ context.Context, task *client.Leased) error {
		fmt.Printf("ask for %s: %s\n", task.ID, task.Payload)
		stop()
		return nil
	})
	fmt.Println(err == nil || errors.Is(err, context.Canceled))
	// Output:
	// ask for rating-1: {"order": 1}
	// true
}

// Many operations travel as one stream, and are answered in order.
func ExampleClient_Batch() {
	c, ctx := newClient(), context.Background()
	defer c.Close()

	ops := []client.Op{
		client.ScheduleOp(client.Task{ID: "batch-1", Delay: time.Hour}),
		client.ScheduleOp(client.Task{ID: "batch-2", Delay: time.Hour}),
		client.CancelOp("batch-3"),
	}
	for result := range c.Batch(ctx, slices.Values(ops)) {
		fmt.Println(result.ID, result.Status)
	}
	// Output:
	// batch-1 201
	// batch-2 201
	// batch-3 404
}

// List reads page by page, for as long as the loop goes on.
func ExampleClient_List() {
	c, ctx := newClient(), context.Background()
	defer c.Close()
	for _, id := range []string{"trial-1", "trial-2"} {
		if _, err := c.Schedule(ctx, client.Task{ID: id, Delay: 14 * 24 * time.Hour}); err != nil {
			panic(err)
		}
	}

	var ids []string
	for task, err := range c.List(ctx, client.Filter{Prefix: "trial-"}) {
		if err != nil {
			panic(err)
		}
		ids = append(ids, task.ID)
	}
	slices.Sort(ids) // a list goes from shard to shard
	fmt.Println(ids)
	// Output: [trial-1 trial-2]
}

// A queue says once how its tasks are delivered, retried and limited.
func ExampleClient_PutQueue() {
	c, ctx := newClient(), context.Background()
	defer c.Close()

	queue, err := c.PutQueue(ctx, client.Queue{
		Name:         "closing",
		Target:       &client.Target{URL: "https://shop.example/close", Timeout: 5 * time.Second},
		Retry:        &client.Retry{MaxAttempts: 5},
		MaxPerSecond: 100,
		KeepDone:     time.Hour,
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(queue.Name, queue.MaxPerSecond, queue.KeepDone)
	// Output: closing 100 1h0m0s
}

// Errors are compared with errors.Is; an *Error has the service's own words.
func ExampleError() {
	c, ctx := newClient(), context.Background()
	defer c.Close()

	_, err := c.Get(ctx, "unheard-of")
	fmt.Println(errors.Is(err, client.ErrNotFound))
	var refusal *client.Error
	if errors.As(err, &refusal) {
		fmt.Println(refusal.Status)
	}
	// Output:
	// true
	// 404
}

// A program that may have scheduled its task in an earlier run schedules it once.
func ExampleIfAbsent() {
	c, ctx := newClient(), context.Background()
	defer c.Close()
	task := client.Task{ID: "order-1042-close", Delay: 30 * time.Minute}

	for range 2 {
		_, err := c.Schedule(ctx, task, client.IfAbsent())
		var refusal *client.Error
		switch {
		case err == nil:
			fmt.Println("scheduled")
		case errors.Is(err, client.ErrPrecondition) && errors.As(err, &refusal) && refusal.Task != nil:
			fmt.Println("there already:", refusal.Task.State)
		default:
			panic(err)
		}
	}
	// Output:
	// scheduled
	// there already: scheduled
}

// A change is made only if the task is still the one that was read.
func ExampleIfRevision() {
	c, ctx := newClient(), context.Background()
	defer c.Close()
	first, err := c.Schedule(ctx, client.Task{ID: "invoice-1", Delay: time.Hour})
	if err != nil {
		panic(err)
	}
	if _, err := c.FireNow(ctx, "invoice-1"); err != nil { // another caller was faster
		panic(err)
	}

	_, err = c.Cancel(ctx, "invoice-1", client.IfRevision(first.Revision))
	fmt.Println(errors.Is(err, client.ErrPrecondition))
	// Output: true
}

// Durations are written as the API writes them.
func ExampleParseDuration() {
	for _, text := range []string{"90s", "1.5d", "PT48H"} {
		d, err := client.ParseDuration(text)
		if err != nil {
			panic(err)
		}
		fmt.Println(text, "is", d)
	}
	// Output:
	// 90s is 1m30s
	// 1.5d is 36h0m0s
	// PT48H is 48h0m0s
}

// A program calls nodes with TLS in its own namespace, with the key in a file. A rotated key is read again.
func ExampleLoadTLS() {
	security, err := client.LoadTLS("/etc/belfry/ca.pem", "", "")
	if err != nil {
		panic(err)
	}
	c, err := client.New(client.Config{
		Addrs:     []string{"https://n1.belfry.example:8400", "https://n2.belfry.example:8400"},
		TLS:       security,
		KeyFile:   "/run/secrets/belfry.key",
		Namespace: "orders",
	})
	if err != nil {
		panic(err)
	}
	defer c.Close()

	_, err = c.Schedule(context.Background(), client.Task{ID: "order-1-close", Delay: 30 * time.Minute})
	if errors.Is(err, client.ErrUnauthenticated) {
		fmt.Println("the key has been revoked, or has expired")
	}
}

// An administrator gives a service a key for its own queues.
func ExampleClient_CreateKey() {
	c, ctx := newClient(), context.Background()
	defer c.Close()

	made, err := c.CreateKey(ctx, client.KeyRequest{
		Name: "shop",
		Grants: []client.Grant{
			{Role: client.RoleSchedule, Namespace: "orders", Queues: []string{"mails*"}},
			{Role: client.RoleConsume, Namespace: "orders", Queues: []string{"mails*"}},
		},
		ExpiresAt: time.Now().Add(90 * 24 * time.Hour),
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(made.Key)        // ***
	fmt.Println(made.Key.Text()) // the key itself, which is not shown again
}
