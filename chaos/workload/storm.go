package workload

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/receiver"
	"github.com/belfryhq/belfry/internal/wait"
)

// Storm is a namespace that takes all it can get: batches without a pause, all their tasks due at one instant, for a
// receiver that never answers. It is neither recorded nor judged by the checks. The load of other namespaces shows its
// effects, and its own counts show whether it was held to its quotas.
type Storm struct {
	Namespace string
	Quotas    client.Quotas // of the namespace
	Target    string        // URL of the receiver
	Nodes     []Node

	Accepted, Refused atomic.Int64 // lines of batches
	Most              atomic.Int64 // most unfinished tasks that the namespace was seen to have
}

const (
	stormLines   = 500 // of a batch
	stormCallers = 4   // batches at once at each node
	stormEvery   = 5 * time.Second
	stormTimeout = 30 * time.Second
	stormLook    = 200 * time.Millisecond
)

// Open makes the namespace.
func (s *Storm) Open(ctx context.Context) error {
	c, err := s.client(s.Nodes...)
	if err == nil {
		_, err = c.PutNamespace(ctx, s.Namespace, s.Quotas)
	}
	return err
}

// Run storms until the context ends.
func (s *Storm) Run(ctx context.Context) error {
	var callers sync.WaitGroup
	failed := make([]error, len(s.Nodes)+1)
	for i, n := range s.Nodes {
		c, err := s.client(n)
		if failed[i] = err; err != nil {
			continue
		}
		for k := range stormCallers {
			callers.Go(func() { s.call(ctx, c, fmt.Sprintf("storm-%d-%d", i, k)) })
		}
	}
	callers.Go(func() { failed[len(s.Nodes)] = s.watch(ctx) })
	callers.Wait()
	return errors.Join(failed...)
}

func (s *Storm) client(nodes ...Node) (*client.Client, error) {
	cfg := client.Config{
		KeyFile: nodes[0].KeyFile, Namespace: s.Namespace, Timeout: stormTimeout, AttemptTimeout: stormTimeout,
		FixedAddrs: true,
	}
	for _, n := range nodes {
		cfg.Addrs = append(cfg.Addrs, n.URL)
	}
	if len(nodes) == 1 {
		cfg.MaxAttempts = 1 // a refused line is not repeated: the next batch comes at once
	}
	return client.New(cfg)
}

// call sends batches, one after the other.
func (s *Storm) call(ctx context.Context, c *client.Client, prefix string) {
	for n := 0; ctx.Err() == nil; n++ {
		due := time.Now().Truncate(stormEvery).Add(2 * stormEvery) // the same instant for all callers
		for r := range c.ScheduleMany(ctx, s.tasks(fmt.Sprintf("%s-%d", prefix, n), due)) {
			if r.Err == nil {
				s.Accepted.Add(1)
			} else if errors.Is(r.Err, client.ErrQuotaExceeded) {
				s.Refused.Add(1)
			}
		}
	}
}

func (s *Storm) tasks(prefix string, due time.Time) func(yield func(client.Task) bool) {
	return func(yield func(client.Task) bool) {
		for i := range stormLines {
			if !yield(client.Task{
				ID: fmt.Sprintf("%s-%d", prefix, i), FireAt: due, Target: &client.Target{URL: s.Target},
			}) {
				return
			}
		}
	}
}

// watch asks for the use of the namespace again and again. A call that fails shows nothing.
func (s *Storm) watch(ctx context.Context) error {
	c, err := s.client(s.Nodes...)
	if err != nil {
		return err
	}
	for wait.For(ctx, stormLook) {
		if n, err := c.Namespace(ctx, s.Namespace); err == nil && n.Used != nil {
			s.Most.Store(max(s.Most.Load(), n.Used.Pending))
		}
	}
	return nil
}

// Clear deletes the namespace, and waits until its tasks are gone.
func (s *Storm) Clear(ctx context.Context) error {
	c, err := s.client(s.Nodes...)
	if err != nil {
		return err
	}
	if _, err = c.DeleteNamespace(ctx, s.Namespace); err != nil {
		return err
	}
	for wait.For(ctx, stormLook) {
		if _, err := c.Namespace(ctx, s.Namespace); errors.Is(err, client.ErrNotFound) {
			return nil
		}
	}
	return ctx.Err()
}

// Silent returns a handler that takes requests and answers none until the sender gives up.
func Silent() http.Handler {
	return receiver.Handler(func(receiver.Arrival) int { return receiver.Hang })
}
