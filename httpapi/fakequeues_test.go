package httpapi

import (
	"context"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// fakeQueues holds the fake's policies, and the signal for waiting leases.
type fakeQueues struct {
	policies map[string]*fsmpb.QueuePolicy // by placeOf
	ready    chan struct{}                 // closed and replaced when a task may have become ready
	leases   []task.LeaseRequest
	waiting  int // Lease calls in progress
}

// wake makes waiting leases look again. The caller holds the lock.
func (f *fakeBackend) wake() {
	if f.queues.ready != nil {
		close(f.queues.ready)
	}
	f.queues.ready = make(chan struct{})
}

func (f *fakeBackend) Lease(ctx context.Context, request task.LeaseRequest) ([]*fsmpb.Task, error) {
	f.mu.Lock()
	f.queues.leases = append(f.queues.leases, request)
	f.queues.waiting++
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.queues.waiting--
		f.mu.Unlock()
	}()
	for {
		f.mu.Lock()
		if f.queues.ready == nil {
			f.wake()
		}
		err, ready := f.readErr, f.queues.ready
		var tasks []*fsmpb.Task
		if !f.grantAtTheEnd || ctx.Err() != nil {
			tasks = f.lease(request)
		}
		f.mu.Unlock()
		if err != nil || len(tasks) > 0 {
			return tasks, err
		}
		select {
		case <-ctx.Done():
			if !f.grantAtTheEnd {
				return nil, nil
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.lease(request), nil
		case <-ready:
		}
	}
}

// lease grants ready tasks, in the order of ids.
func (f *fakeBackend) lease(request task.LeaseRequest) []*fsmpb.Task {
	var tasks []*fsmpb.Task
	for t := range f.within(request.Namespace) {
		if t.State != fsmpb.State_STATE_READY || orElse(t.Spec.Queue, task.DefaultQueue) != request.Queue ||
			len(tasks) == request.Max || f.leaseMost > 0 && len(tasks) == f.leaseMost {
			continue
		}
		f.revision++
		t.State, t.Attempts, t.Fence, t.Revision = fsmpb.State_STATE_FIRING, t.Attempts+1, f.revision, f.revision
		t.Leased, t.LeaseEndMs = true, testNow.Add(request.Lease).UnixMilli()
		tasks = append(tasks, proto.CloneOf(t))
	}
	return tasks
}

// settle ends or extends a lease.
func (f *fakeBackend) settle(t *fsmpb.Task, fence, occurrence uint64, replaceable bool, end func()) *fsmpb.Result {
	if t == nil {
		return &fsmpb.Result{Code: fsmpb.Code_CODE_NOT_FOUND}
	}
	if t.Fence != fence || t.Occurrence != occurrence || !t.Leased {
		if occurrence < t.Occurrence && replaceable {
			return &fsmpb.Result{Code: fsmpb.Code_CODE_REPLACED}
		}
		return &fsmpb.Result{Code: fsmpb.Code_CODE_STALE}
	}
	end()
	f.wake()
	return f.changed(fsmpb.Code_CODE_OK, t, fsmpb.Answer_ANSWER_BRIEF)
}

// consume carries out the commands of consumers and of operators of dead letters. It returns nil for any other command.
func (f *fakeBackend) consume(c *fsmpb.Command, t *fsmpb.Task) *fsmpb.Result {
	switch op := c.Op.(type) {
	case *fsmpb.Command_Settle:
		s := op.Settle
		if s.Verdict == fsmpb.Verdict_VERDICT_DELIVERED && t.GetState() == fsmpb.State_STATE_DELIVERED && t.Fence == s.Fence {
			return &fsmpb.Result{Code: fsmpb.Code_CODE_OK}
		}
		return f.settle(t, s.Fence, s.Occurrence, true, func() { end(t, s) })
	case *fsmpb.Command_Extend:
		e := op.Extend
		return f.settle(t, e.Fence, e.Occurrence, false, func() {
			t.LeaseEndMs = testNow.Add(time.Duration(e.LeaseMs) * time.Millisecond).UnixMilli()
		})
	case *fsmpb.Command_Replay, *fsmpb.Command_Drop:
		return f.undead(c, t)
	}
	return nil
}

func end(t *fsmpb.Task, s *fsmpb.Settle) {
	t.Leased, t.LeaseEndMs = false, 0
	switch s.Verdict {
	case fsmpb.Verdict_VERDICT_DELIVERED:
		t.State = fsmpb.State_STATE_DELIVERED
	case fsmpb.Verdict_VERDICT_RETRY:
		t.State, t.LastError = fsmpb.State_STATE_RETRYING, s.Error
	case fsmpb.Verdict_VERDICT_RELEASED:
		t.State = fsmpb.State_STATE_READY
		t.Attempts--
	}
}

func (f *fakeBackend) undead(c *fsmpb.Command, t *fsmpb.Task) *fsmpb.Result {
	switch {
	case t == nil:
		return &fsmpb.Result{Code: fsmpb.Code_CODE_NOT_FOUND}
	case t.State != fsmpb.State_STATE_DEAD:
		return &fsmpb.Result{Code: fsmpb.Code_CODE_CONFLICT, Task: &fsmpb.Task{State: t.State}}
	case c.GetDrop() != nil:
		delete(f.tasks, placeOf(c.Namespace, c.Id))
		return &fsmpb.Result{Code: fsmpb.Code_CODE_OK}
	}
	t.State, t.Attempts = fsmpb.State_STATE_READY, 0
	f.wake()
	return f.changed(fsmpb.Code_CODE_OK, t, c.Answer)
}

func (f *fakeBackend) PutQueue(_ context.Context, p *fsmpb.QueuePolicy) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readErr != nil {
		return false, f.readErr
	}
	_, existed := f.queues.policies[placeOf(p.Namespace, p.Queue)]
	if f.queues.policies == nil {
		f.queues.policies = map[string]*fsmpb.QueuePolicy{}
	}
	f.queues.policies[placeOf(p.Namespace, p.Queue)] = proto.CloneOf(p)
	return !existed, nil
}

func (f *fakeBackend) UpdateQueue(_ context.Context, namespace, queue string,
	change func(*fsmpb.QueuePolicy) (*fsmpb.QueuePolicy, error)) (*fsmpb.QueuePolicy, error) {
	f.mu.Lock()
	current := f.queues.policies[placeOf(namespace, queue)]
	f.mu.Unlock()
	policy, err := change(current)
	if err != nil {
		return nil, err
	}
	_, err = f.PutQueue(context.Background(), policy)
	return policy, err
}

func (f *fakeBackend) DeleteQueue(_ context.Context, namespace, queue string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, existed := f.queues.policies[placeOf(namespace, queue)]
	delete(f.queues.policies, placeOf(namespace, queue))
	return existed, f.readErr
}

func (f *fakeBackend) Queue(_ context.Context, namespace, queue string) (*fsmpb.QueuePolicy, *fsmpb.QueueCounts, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.queues.policies[placeOf(namespace, queue)], f.counts(namespace, queue), f.readErr
}

func (f *fakeBackend) counts(namespace, queue string) *fsmpb.QueueCounts {
	c := &fsmpb.QueueCounts{Queue: queue}
	for t := range f.within(namespace) {
		if orElse(t.Spec.Queue, task.DefaultQueue) != queue {
			continue
		}
		switch t.State {
		case fsmpb.State_STATE_SCHEDULED:
			c.Scheduled++
			c.Due_1D++
		case fsmpb.State_STATE_READY:
			c.Ready++
			c.OldestOverdueMs = t.FireAtMs
		case fsmpb.State_STATE_FIRING:
			if t.Leased {
				c.Leased++
			} else {
				c.Firing++
			}
		case fsmpb.State_STATE_RETRYING:
			c.Retrying++
		case fsmpb.State_STATE_DELIVERED:
			c.Delivered++
		case fsmpb.State_STATE_DEAD:
			c.Dead++
		case fsmpb.State_STATE_CANCELLED:
			c.Cancelled++
		}
	}
	return c
}

func (f *fakeBackend) Queues(_ context.Context, namespace string) ([]task.Queue, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := map[string]bool{}
	for _, p := range f.queues.policies {
		if task.CanonicalNamespace(p.Namespace) == namespace {
			names[p.Queue] = true
		}
	}
	for t := range f.within(namespace) {
		names[orElse(t.Spec.Queue, task.DefaultQueue)] = true
	}
	var out []task.Queue
	for _, name := range slices.Sorted(maps.Keys(names)) {
		out = append(out, task.Queue{
			Policy: f.queues.policies[placeOf(namespace, name)], Counts: f.counts(namespace, name),
		})
	}
	return out, f.readErr
}
