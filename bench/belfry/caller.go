package belfry

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/wait"
)

// caller calls the cluster through the client that all callers share.
type caller struct {
	*service
	queue string
}

// Close leaves the shared client open.
func (c *caller) Close() error { return nil }

func (c *caller) task(t subject.Task) client.Task {
	task := client.Task{ID: t.ID, FireAt: t.Due, Payload: t.Payload, Target: c.target.Load()}
	if c.queue != defaultQueue {
		task.Queue = c.queue
	}
	return task
}

// Schedule schedules the task with one call.
func (c *caller) Schedule(ctx context.Context, task subject.Task) error {
	_, err := c.client.Schedule(ctx, c.task(task))
	return err
}

// ScheduleBatch schedules the tasks with one batch.
func (c *caller) ScheduleBatch(ctx context.Context, tasks []subject.Task) error {
	for result := range c.client.ScheduleMany(ctx, func(yield func(client.Task) bool) {
		for _, task := range tasks {
			if !yield(c.task(task)) {
				return
			}
		}
	}) {
		if result.Err != nil {
			return result.Err
		}
	}
	return nil
}

// Replace replaces the tasks with one batch. Scheduling an existing id replaces its task.
func (c *caller) Replace(ctx context.Context, tasks []subject.Task) error {
	return c.ScheduleBatch(ctx, tasks)
}

// Repeat stores the schedule with one call.
func (c *caller) Repeat(ctx context.Context, s subject.Schedule) error {
	_, err := c.client.PutSchedule(ctx, client.Schedule{
		ID: s.ID, Repeat: client.Repeat{Every: s.Every, Anchor: s.First, Start: s.First},
		Task: c.task(subject.Task{Payload: s.Payload}),
	})
	return err
}

// Cancel cancels the task with one call.
func (c *caller) Cancel(ctx context.Context, id string) error {
	outcome, err := c.client.Cancel(ctx, id)
	if err != nil {
		return err
	}
	return mustBeCancelled(id, outcome)
}

// CancelBatch cancels the tasks with one batch.
func (c *caller) CancelBatch(ctx context.Context, ids []string) error {
	for result := range c.client.Batch(ctx, func(yield func(client.Op) bool) {
		for _, id := range ids {
			if !yield(client.CancelOp(id)) {
				return
			}
		}
	}) {
		if result.Err != nil {
			return result.Err
		}
		if err := mustBeCancelled(result.ID, result.Outcome); err != nil {
			return err
		}
	}
	return nil
}

func mustBeCancelled(id string, outcome client.Outcome) error {
	if outcome != client.OutcomeCancelled {
		return fmt.Errorf("cancelling %s came to %q", id, outcome)
	}
	return nil
}

// Touch restarts the task's delay. The service counts the delay from the arrival of the call.
func (c *caller) Touch(ctx context.Context, id string, due time.Time) error {
	_, err := c.client.Touch(ctx, id, client.Touch{Delay: time.Until(due)})
	return err
}

// concurrency is the number of tasks that a consumer handles at once. A handler does nothing here, so the number bounds
// the tasks in flight, as the prefetch limit of other services does. A lease call returns at most 1000 tasks.
const concurrency = 1000

// Consume runs a handler for each task, as a program does.
func (c *caller) Consume(ctx context.Context, got func(id string, at time.Time)) error {
	return consume(ctx, c.client, c.queue, got)
}

func consume(ctx context.Context, by *client.Client, queue string, got func(id string, at time.Time)) error {
	return by.Consume(ctx, queue, client.ConsumeOptions{Concurrency: concurrency},
		func(_ context.Context, task *client.Leased) error {
			got(task.ID, time.Now())
			return nil
		})
}

// single calls one node over one connection, with one task a call.
type single struct {
	base   string                // URL prefix of the node's tasks
	target func() *client.Target // of the tasks; nil: consumers take them
	key    string                // empty: calls need none
	http   *http.Client
}

// newSingle makes a caller, and spreads the callers over the nodes.
func newSingle(s *service) *single {
	node := int(s.made.Add(1)) % len(s.urls)
	return &single{base: s.urls[node] + "/v1/tasks/", target: s.target.Load, http: oneConnection()}
}

func oneConnection() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1, MaxIdleConnsPerHost: 1, DisableCompression: true}}
}

// Close closes the caller's connection.
func (c *single) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// Schedule schedules the task with a PUT.
func (c *single) Schedule(ctx context.Context, task subject.Task) error {
	body := make([]byte, 0, len(task.Payload)+100)
	body = append(body, `{"fire_at":"`...)
	body = task.Due.UTC().AppendFormat(body, time.RFC3339Nano)
	body = append(body, '"')
	if target := c.target(); target != nil {
		body = fmt.Appendf(body, `,"target":{"url":%q}`, target.URL)
	}
	body = append(append(append(body, `,"payload":`...), task.Payload...), '}')
	return c.call(ctx, http.MethodPut, task.ID, body)
}

// Cancel cancels the task with a DELETE.
func (c *single) Cancel(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, id, nil)
}

// Touch restarts the task's delay with a POST.
func (c *single) Touch(ctx context.Context, id string, due time.Time) error {
	return c.call(ctx, http.MethodPost, id+"/touch", fmt.Appendf(nil, `{"delay":"%dms"}`, time.Until(due).Milliseconds()))
}

// repeatAfter is the pause before a call is repeated.
const repeatAfter = 20 * time.Millisecond

// call makes a call, and repeats it while the shard has no leader or the outcome is unknown. Any program without a
// client has to repeat such calls; a PUT, a DELETE and a touch are idempotent.
func (c *single) call(ctx context.Context, method, id string, body []byte) error {
	for {
		again, err := c.try(ctx, method, id, body)
		if !again {
			return err
		}
		if !wait.For(ctx, repeatAfter) {
			return err
		}
	}
}

func (c *single) try(ctx context.Context, method, id string, body []byte) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+id, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return false, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return false, err
	}
	switch resp.StatusCode {
	case http.StatusOK, http.StatusCreated:
		return false, nil
	case http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		again = true
	}
	return again, fmt.Errorf("%s %s: %s: %s", method, id, resp.Status, answer)
}

// securedService is a running cluster whose calls need keys. Each tenant has a namespace with one key.
type securedService struct {
	*service
	mu   sync.Mutex
	keys map[string]string // by tenant
}

// keyOf returns the key of a tenant, and makes its namespace and key at the first call.
func (k *securedService) keyOf(ctx context.Context, tenant string) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if key := k.keys[tenant]; key != "" {
		return key, nil
	}
	if _, err := k.client.PutNamespace(ctx, tenant, client.Quotas{}); err != nil {
		return "", err
	}
	made, err := k.client.CreateKey(ctx, client.KeyRequest{Name: tenant, Grants: []client.Grant{
		{Role: client.RoleSchedule, Namespace: tenant}, {Role: client.RoleConsume, Namespace: tenant},
	}})
	if err != nil {
		return "", err
	}
	k.keys[tenant] = made.Key.Text()
	return k.keys[tenant], nil
}

// TenantCaller returns a caller by single calls, which consumes through the client.
func (k *securedService) TenantCaller(ctx context.Context, tenant, url string) (subject.Caller, error) {
	key, err := k.keyOf(ctx, tenant)
	if err != nil {
		return nil, err
	}
	c := &tenantCaller{single: newSingle(k.service)}
	c.key, c.target = key, func() *client.Target { return targetOf(url) }
	c.client, err = client.New(client.Config{Addrs: k.urls, Key: client.NewSecret(key)})
	return c, err
}

func targetOf(url string) *client.Target {
	if url == "" {
		return nil
	}
	return &client.Target{URL: url}
}

// Storm starts the program of the bench once more, as a storm.
func (k *securedService) Storm(ctx context.Context, tenant string, s subject.Storm) (subject.Storming, error) {
	key, err := k.keyOf(ctx, tenant)
	if err != nil {
		return nil, err
	}
	quotas := client.Quotas{SchedulesPerSecond: float64(s.Quota)}
	if _, err := k.client.PutNamespace(ctx, tenant, quotas); err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return startStorm(ctx, []string{program, StormCommand}, stormConfig{URLs: k.urls, Key: key, Storm: s})
}

// StormCommand is the argument with which the program of the bench must call ServeStorm.
const StormCommand = "storm"

// tenantCaller is a caller with a tenant's key.
type tenantCaller struct {
	*single
	client *client.Client
}

// Consume consumes from the tenant's default queue.
func (c *tenantCaller) Consume(ctx context.Context, got func(id string, at time.Time)) error {
	return consume(ctx, c.client, defaultQueue, got)
}
