package httpapi

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
	"github.com/belfryhq/belfry/repeat/series"
)

// Queues are the queues of the cluster, with their policies and counts.
type Queues interface {
	// PutQueue replaces a queue's policy. It returns once every reachable leader applies the policy, or after a second.
	PutQueue(ctx context.Context, policy *fsmpb.QueuePolicy) (created bool, err error)

	// UpdateQueue replaces a queue's policy by the result of change, and returns it when PutQueue would return. change
	// gets the present policy, nil for none, and must not write to it. change may run more than once, so that no
	// concurrent update is lost. An error of change ends the call.
	UpdateQueue(ctx context.Context, namespace, queue string,
		change func(current *fsmpb.QueuePolicy) (*fsmpb.QueuePolicy, error)) (*fsmpb.QueuePolicy, error)

	// DeleteQueue deletes a queue's policy. The queue's tasks stay, under the default policy.
	DeleteQueue(ctx context.Context, namespace, queue string) (existed bool, err error)

	// Queue returns a queue's policy, nil if it has none, and its counts, summed over the shards.
	Queue(ctx context.Context, namespace, queue string) (*fsmpb.QueuePolicy, *fsmpb.QueueCounts, error)

	// Queues returns the queues that have a policy or a task, tombstones included, sorted by name.
	Queues(ctx context.Context, namespace string) ([]task.Queue, error)
}

// queueService answers the calls about queues and their dead letters.
type queueService struct {
	*core
	backend Queues
}

// put replaces a queue's policy.
func (s *queueService) put(c echo.Context) error {
	queue := c.Param("queue")
	body, err := bind(c, s.bounds.BodyBytes, jsonType)
	defer body.release()
	if err != nil {
		return err
	}
	d, err := s.parser(callOf(c)).queuePolicy(body.data, queue)
	if err == nil {
		err = callOf(c).checkFollowUps(d.policy.OnDelivered, d.policy.OnDead, "")
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.bounds.RequestTimeout)
	defer cancel()
	if err := s.fillKept(ctx, d); err != nil {
		return err
	}
	if err := s.admitPolicy(ctx, callOf(c), queue); err != nil {
		return err
	}
	created, err := s.backend.PutQueue(ctx, d.policy)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	s.write(c, status, queue, d.policy, nil)
	return nil
}

// fillKept completes a policy from the stored one: secrets given by fingerprint and masked credentials get their stored
// values. It reads the stored policy only if the draft has one of these.
func (s *queueService) fillKept(ctx context.Context, d *policyDraft) error {
	var current *fsmpb.QueuePolicy
	if d.named() || task.HasMasked(d.policy.Target) {
		var err error
		if current, _, err = s.backend.Queue(ctx, d.policy.Namespace, d.policy.Queue); err != nil {
			return s.readFailed(err)
		}
	}
	if current.GetSealed() != nil {
		return sealedProblem(current)
	}
	if err := checkMoved(d.policy.Target, current.GetTarget()); err != nil {
		return err
	}
	d.policy.Target = task.KeepMasked(d.policy.Target, current.GetTarget())
	if err := cmp.Or(task.CheckMasked(d.policy.Target), task.CheckQueue(d.policy)); err != nil {
		return err
	}
	var err error
	d.policy.Secrets, err = keepSecrets(d.secrets, current.GetSecrets())
	return err
}

// sealedProblem refuses a change that needs the secrets of a policy whose cluster key this node does not have.
func sealedProblem(p *fsmpb.QueuePolicy) error {
	return &problem{kind: notCommitted, committed: "no", retryAfter: 1,
		detail: "the queue's secrets are sealed under cluster key " + p.Sealed.Key + ", which this node does not have: " +
			"give all of them anew, or call another node"}
}

func (s *queueService) get(c echo.Context) error {
	queue := c.Param("queue")
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.bounds.RequestTimeout)
	defer cancel()
	policy, counts, err := s.backend.Queue(ctx, callOf(c).namespace, queue)
	switch {
	case err != nil:
		return s.readFailed(err)
	case policy == nil && queue != task.DefaultQueue && pending(counts)+counts.GetDelivered()+counts.GetCancelled() == 0:
		return noSuchQueue()
	}
	s.write(c, http.StatusOK, queue, policy, cmp.Or(counts, new(fsmpb.QueueCounts)))
	return nil
}

func noSuchQueue() error {
	return &problem{kind: queueNotFound, detail: "the queue has neither a policy nor a task"}
}

// remove deletes the policy of a queue without unfinished tasks. A task that arrives meanwhile does no harm: it
// belongs to a queue without a policy.
func (s *queueService) remove(c echo.Context) error {
	queue := c.Param("queue")
	if err := s.emptyBody(c); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.bounds.RequestTimeout)
	defer cancel()
	namespace := callOf(c).namespace
	policy, counts, err := s.backend.Queue(ctx, namespace, queue)
	if err != nil {
		return s.readFailed(err)
	}
	if pending(counts) > 0 {
		return &problem{kind: queueNotEmpty, detail: fmt.Sprintf("tasks in it: %d", pending(counts)),
			member: contract.Counts, present: queueCounts{counts}}
	}
	existed, err := s.backend.DeleteQueue(ctx, namespace, queue)
	switch {
	case err != nil:
		return err
	case !existed:
		return &problem{kind: queueNotFound, detail: "the queue has no policy"}
	}
	s.write(c, http.StatusOK, queue, policy, nil)
	return nil
}

func (s *queueService) write(c echo.Context, status int, name string, p *fsmpb.QueuePolicy, counts *fsmpb.QueueCounts) {
	b := s.buffers.get()
	defer s.buffers.put(b)
	*b = append(s.append(*b, name, p, counts), '\n')
	writeJSON(c.Response(), status, *b)
}

// list answers a page of the queues, sorted by name.
func (s *queueService) list(c echo.Context) error {
	cl := callOf(c)
	q, err := parseList(listsQueues, cl.namespace, c.QueryParams(), s.arrived().at)
	if err == nil {
		err = cl.checkQueues(q.Prefix)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.bounds.RequestTimeout)
	defer cancel()
	queues, err := s.backend.Queues(ctx, cl.namespace)
	if err != nil {
		return s.readFailed(err)
	}
	s.writeList(c, queuesOf(queues, q), q)
	return nil
}

// queuesOf returns the queues that the query selects, regardless of its limit.
func queuesOf(queues []task.Queue, q *fsmpb.ListQuery) []task.Queue {
	return slices.DeleteFunc(queues, func(queue task.Queue) bool {
		name := queueName(queue)
		return name <= q.AfterId || !strings.HasPrefix(name, q.Prefix)
	})
}

func queueName(q task.Queue) string {
	name := q.Policy.GetQueue()
	if name == "" {
		name = q.Counts.GetQueue()
	}
	return orElse(name, task.DefaultQueue)
}

func (s *queueService) writeList(c echo.Context, queues []task.Queue, q *fsmpb.ListQuery) {
	next := "null"
	if limit := int(q.Limit); len(queues) > limit {
		queues = queues[:limit]
		next = `"` + listingOf(listsQueues, q).cursor(listPlace{id: queueName(queues[limit-1])}) + `"`
	}
	buffer := s.buffers.get()
	defer s.buffers.put(buffer)
	b := appendList(append(*buffer, `{"queues":`...), queues, func(b []byte, q task.Queue) []byte {
		return s.append(b, queueName(q), q.Policy, cmp.Or(q.Counts, new(fsmpb.QueueCounts)))
	})
	b = append(append(append(b, `,"next_cursor":`...), next...), "}\n"...)
	writeJSON(c.Response(), http.StatusOK, b)
	*buffer = b
}

// append appends a queue as an object: its policy, and unless counts is nil, the state of its window and counts.
func (s *queueService) append(b []byte, name string, p *fsmpb.QueuePolicy, counts *fsmpb.QueueCounts) []byte {
	begin := len(b)
	b = contract.AppendText(b, contract.Queue, name)
	b = appendSettings(b, specOfPolicy(p))
	b = appendGroups(appendLimits(b, p), p)
	b = contract.AppendBool(b, contract.Paused, p.GetPaused())
	b = appendSpan(b, contract.KeepDone, p.GetKeepDoneMs())
	b = appendSpan(b, contract.KeepDead, p.GetKeepDeadMs())
	b = appendSigning(b, p)
	if counts != nil {
		now, _ := s.now()
		b = s.appendOpening(b, p.GetNamespace(), p.GetWindow(), now)
		b = queueCounts{counts}.append(contract.AppendName(b, contract.Counts))
		b = appendBroken(b, counts.GetBroken())
	}
	return contract.Close(b, begin)
}

func appendLimits(b []byte, p *fsmpb.QueuePolicy) []byte {
	b = appendCount(b, contract.MaxInFlight, p.GetMaxInFlight())
	b = appendRate(b, contract.MaxPerSecond, p.GetMaxPerSecond())
	return appendCount(b, contract.BatchMax, p.GetBatchMax())
}

func appendRate(b []byte, f contract.Field, perSecond float64) []byte {
	if perSecond > 0 {
		b = contract.AppendFloat(b, f, perSecond)
	}
	return b
}

// appendSigning appends the secrets' fingerprints, which show no byte of them. They are known of a sealed policy, too.
func appendSigning(b []byte, p *fsmpb.QueuePolicy) []byte {
	var fingerprints []string
	for _, key := range p.GetSecrets() {
		fingerprints = append(fingerprints, fingerprint(key))
	}
	if len(fingerprints) == 0 {
		for _, digest := range p.GetSealed().GetDigests() {
			fingerprints = append(fingerprints, fingerprintPrefix+hex.EncodeToString(digest))
		}
	}
	return contract.AppendSigning(b, fingerprints)
}

// appendBroken appends the receivers that fail, if there are any.
func appendBroken(b []byte, broken []*fsmpb.Broken) []byte {
	if len(broken) == 0 {
		return b
	}
	return appendList(contract.AppendName(b, contract.Broken), broken, func(b []byte, r *fsmpb.Broken) []byte {
		begin := len(b)
		b = contract.AppendText(b, contract.Receiver, r.Receiver)
		b = contract.AppendText(b, contract.Path, r.Path)
		b = contract.AppendTime(b, contract.Since, r.SinceMs)
		b = contract.AppendText(b, contract.LastError, r.LastError)
		return contract.Close(contract.AppendUint(b, contract.Waiting, r.Waiting), begin)
	})
}

// queueCounts are the counts of a queue as an answer shows them.
type queueCounts struct{ counts *fsmpb.QueueCounts }

func (q queueCounts) append(b []byte) []byte {
	c, begin := q.counts, len(b)
	for _, n := range [...]struct {
		field contract.Field
		value uint64
	}{
		{contract.Scheduled, c.GetScheduled()}, {contract.Ready, c.GetReady()}, {contract.Firing, c.GetFiring()},
		{contract.Leased, c.GetLeased()}, {contract.Retrying, c.GetRetrying()}, {contract.Delivered, c.GetDelivered()},
		{contract.Dead, c.GetDead()}, {contract.Cancelled, c.GetCancelled()}, {contract.Due1m, c.GetDue_1M()},
		{contract.Due1h, c.GetDue_1H()}, {contract.Due1d, c.GetDue_1D()},
	} {
		b = contract.AppendUint(b, n.field, n.value)
	}
	return contract.Close(contract.AppendTimeOrNull(b, contract.OldestOverdue, c.GetOldestOverdueMs()), begin)
}

// pending returns the number of tasks that are not done. Dead letters count.
func pending(c *fsmpb.QueueCounts) uint64 {
	return c.GetScheduled() + c.GetReady() + c.GetFiring() + c.GetLeased() + c.GetRetrying() + c.GetDead()
}

// patch merges a merge patch (RFC 7396) into a queue's policy.
func (s *queueService) patch(c echo.Context) error {
	queue := c.Param("queue")
	body, err := bind(c, s.bounds.BodyBytes, jsonType, mergeType)
	defer body.release()
	if err != nil {
		return err
	}
	cl := callOf(c)
	return s.update(c, queue, func(policy *fsmpb.QueuePolicy) error {
		given, err := s.parser(cl).patchPolicy(body.data, policy)
		if err == nil {
			err = cl.checkFollowUps(given.OnDelivered, given.OnDead, "")
		}
		return err
	})
}

func (s *queueService) pause(c echo.Context) error { return s.setPaused(c, true) }

func (s *queueService) resume(c echo.Context) error { return s.setPaused(c, false) }

func (s *queueService) setPaused(c echo.Context, paused bool) error {
	queue := c.Param("queue")
	if err := s.emptyBody(c); err != nil {
		return err
	}
	return s.update(c, queue, func(policy *fsmpb.QueuePolicy) error {
		policy.Paused = paused
		return nil
	})
}

// update changes a copy of the queue's policy, or of the defaults if there is none, and answers with the stored
// policy.
func (s *queueService) update(c echo.Context, queue string, change func(*fsmpb.QueuePolicy) error) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.bounds.RequestTimeout)
	defer cancel()
	namespace := callOf(c).namespace
	if err := s.admitPolicy(ctx, callOf(c), queue); err != nil {
		return err
	}
	policy, err := s.backend.UpdateQueue(ctx, namespace, queue,
		func(current *fsmpb.QueuePolicy) (*fsmpb.QueuePolicy, error) {
			next := &fsmpb.QueuePolicy{Namespace: namespace, Queue: queue}
			if current != nil {
				next = proto.CloneOf(current)
			}
			return next, change(next)
		})
	if err != nil {
		return err
	}
	s.write(c, http.StatusOK, queue, policy, nil)
	return nil
}

// patchPolicy applies a merge patch to a policy: an absent member stays, null restores the default, and any other value
// is set. It returns the given settings for tasks.
func (p *parser) patchPolicy(data []byte, policy *fsmpb.QueuePolicy) (given *fsmpb.Spec, err error) {
	d := &policyDraft{specReader: specReader{parser: p, spec: new(fsmpb.Spec)}, policy: policy}
	d.patch = &fsmpb.Patch{Set: d.spec}
	if err := d.members().Root(data, true); err != nil {
		return nil, err
	}
	if policy.Sealed != nil && d.signs && (d.secrets == nil || d.named()) {
		return nil, sealedProblem(policy) // this node cannot tell which secrets stay
	}
	if d.secrets != nil {
		if policy.Secrets, err = keepSecrets(d.secrets, policy.Secrets); err != nil {
			return nil, err
		}
	}
	merged, err := mergeSpec(specOfPolicy(policy), d.patch)
	if err != nil {
		return nil, err
	}
	setSettings(policy, merged)
	if err := p.checkPolicy(policy); err != nil {
		return nil, err
	}
	if policy.Sealed != nil {
		return d.spec, nil // its masked headers have values
	}
	return d.spec, checked(task.CheckMasked(policy.Target))
}

// specOfPolicy returns the settings that a queue's policy gives its tasks.
func specOfPolicy(p *fsmpb.QueuePolicy) *fsmpb.Spec {
	return &fsmpb.Spec{
		Target: p.GetTarget(), Retry: p.GetRetry(), Window: p.GetWindow(),
		OnDelivered: p.GetOnDelivered(), OnDead: p.GetOnDead(),
	}
}

// setSettings gives a policy the settings of a spec.
func setSettings(p *fsmpb.QueuePolicy, s *fsmpb.Spec) {
	p.Target, p.Retry, p.Window, p.OnDelivered, p.OnDead = s.Target, s.Retry, s.Window, s.OnDelivered, s.OnDead
}

// appendOpening appends whether a queue's window is open at now, and when a closed one opens.
func (s *queueService) appendOpening(b []byte, namespace string, w *fsmpb.Window, now time.Time) []byte {
	if w == nil {
		return b
	}
	var opens time.Time
	read, err := series.WindowOf(w, calendarOf(s.calendars, namespace, w.Calendar))
	if err == nil {
		opens, _ = read.Opens(now)
	}
	open := opens.Equal(now)
	b = contract.AppendBool(b, contract.WindowOpen, open)
	if open {
		return b
	}
	ms := int64(0)
	if !opens.IsZero() {
		ms = contract.CeilUnixMs(opens)
	}
	return contract.AppendTimeOrNull(b, contract.WindowOpensAt, ms)
}
