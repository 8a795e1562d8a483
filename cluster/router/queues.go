package router

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/quota"
)

// Queues asks every shard's leader for the number of its tasks in a queue, or in each queue, and adds the answers up.
// Each shard's part is linearizable by itself. The sums are sorted by queue; queues without tasks are left out.
func (r *Router) Queues(ctx context.Context, ask *clusterpb.QueuesCall) ([]*fsmpb.QueueCounts, error) {
	parts, err := eachShard[*clusterpb.QueuesReply](ctx, r, r.shards(), ask)
	if err != nil {
		return nil, err
	}
	return addUp(parts), nil
}

// NamespaceUse asks every shard's leader for the use of a namespace, and adds the answers up. Each shard's part is
// linearizable by itself. Queues is the largest number in one shard.
func (r *Router) NamespaceUse(ctx context.Context, namespace string) (task.NamespaceUse, error) {
	sum := task.NamespaceUse{Namespace: task.CanonicalNamespace(namespace)}
	parts, err := eachShard[*clusterpb.NamespaceUse](ctx, r, r.shards(), &clusterpb.NamespaceCall{Namespace: namespace})
	for _, part := range parts {
		sum.Add(task.NamespaceUse{Pending: part.Pending, Dead: part.Dead, Bytes: part.Bytes, Queues: part.Queues})
	}
	return sum, err
}

// AskOwner asks the leader of the shard that owns the quotas of a namespace or a key.
func (r *Router) AskOwner(ctx context.Context, call *clusterpb.QuotaCall) (*clusterpb.QuotaReply, error) {
	l := r.layout()
	if l == nil {
		return nil, errNoMap
	}
	s := quota.Subject{Namespace: call.GetSubject().GetNamespace(), Key: call.GetSubject().GetKey()}
	return r.AskShard(ctx, l.slots[quotaSlot(s)].Shard, call)
}

// QuotaEpoch returns the number of the move that brought the slot of a subject's quotas to its shard.
func (r *Router) QuotaEpoch(s quota.Subject) uint64 {
	l := r.layout()
	if l == nil {
		return 0
	}
	return l.slots[quotaSlot(s)].Epoch
}

// AskShard asks a shard's leader about a quota.
func (r *Router) AskShard(
	ctx context.Context, id uint32, call *clusterpb.QuotaCall,
) (*clusterpb.QuotaReply, error) {
	ctx, cancel := context.WithTimeout(ctx, lendPatience)
	defer cancel()
	return read[*clusterpb.QuotaReply](ctx, r, id, false, call)
}

// quotaSlot spreads the namespaces and keys over the shards, as ownerSlot does the queues.
func quotaSlot(s quota.Subject) uint32 {
	if s.Key != "" {
		return task.Slot("", "quota/key/"+s.Key)
	}
	return task.Slot(s.Namespace, "quota/namespace")
}

// SlotCounts returns the number of slots of each shard.
func (r *Router) SlotCounts() map[uint32]int64 {
	counts := map[uint32]int64{}
	for _, s := range r.cfg.Control.State().Slots {
		counts[s.Shard] += int64(s.End - s.First)
	}
	return counts
}

// eachShard asks the leaders of shards, which are all shards, side by side. It returns their answers in order.
func eachShard[A proto.Message](
	ctx context.Context, r *Router, shards []uint32, request proto.Message,
) ([]A, error) {
	ctx, cancel := r.patient(ctx)
	defer cancel()
	if len(shards) == 0 {
		return nil, errNoMap
	}
	answers, errs := askAll[A](ctx, r, shards, request)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return answers, nil
}

// askAll asks the leaders of shards side by side. The answers and errors are in the order of the shards.
func askAll[A proto.Message](
	ctx context.Context, r *Router, shards []uint32, request proto.Message,
) (answers []A, errs []error) {
	answers, errs = make([]A, len(shards)), make([]error, len(shards))
	var wg sync.WaitGroup
	for i, id := range shards {
		wg.Go(func() { answers[i], errs[i] = read[A](ctx, r, id, false, request) })
	}
	wg.Wait()
	return answers, errs
}

// shards returns every shard that owns slots, sorted.
func (r *Router) shards() []uint32 {
	var ids []uint32
	for _, s := range r.cfg.Control.State().Slots {
		ids = append(ids, s.Shard)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func addUp(parts []*clusterpb.QueuesReply) []*fsmpb.QueueCounts {
	byQueue := make(map[string]*fsmpb.QueueCounts)
	var sums []*fsmpb.QueueCounts
	for _, part := range parts {
		for _, c := range part.GetCounts() {
			sum := byQueue[c.Queue]
			if sum == nil {
				sum = &fsmpb.QueueCounts{Namespace: c.Namespace, Queue: c.Queue}
				byQueue[c.Queue] = sum
				sums = append(sums, sum)
			}
			add(sum, c)
		}
	}
	slices.SortFunc(sums, func(a, b *fsmpb.QueueCounts) int { return strings.Compare(a.Queue, b.Queue) })
	return sums
}

func add(sum, c *fsmpb.QueueCounts) {
	sum.Scheduled += c.Scheduled
	sum.Ready += c.Ready
	sum.Firing += c.Firing
	sum.Leased += c.Leased
	sum.Retrying += c.Retrying
	sum.Delivered += c.Delivered
	sum.Dead += c.Dead
	sum.Cancelled += c.Cancelled
	sum.Due_1M += c.Due_1M
	sum.Due_1H += c.Due_1H
	sum.Due_1D += c.Due_1D
	sum.AtLimit = sum.AtLimit || c.AtLimit
	sum.Broken = addBroken(sum.Broken, c.Broken)
	if sum.OldestOverdueMs == 0 || c.OldestOverdueMs != 0 && c.OldestOverdueMs < sum.OldestOverdueMs {
		sum.OldestOverdueMs, sum.OldestPulled = c.OldestOverdueMs, c.OldestPulled
	}
}

// maxBroken is the largest number of broken receivers of a queue that an answer names.
const maxBroken = 32

// addBroken merges the broken receivers of two shards, those first that are broken for longest.
func addBroken(all, part []*fsmpb.Broken) []*fsmpb.Broken {
	for _, b := range part {
		i := slices.IndexFunc(all, func(other *fsmpb.Broken) bool {
			return other.Receiver == b.Receiver && other.Path == b.Path
		})
		if i < 0 {
			all = append(all, proto.CloneOf(b))
			continue
		}
		all[i].SinceMs = min(all[i].SinceMs, b.SinceMs)
		all[i].Waiting += b.Waiting
	}
	slices.SortStableFunc(all, func(a, b *fsmpb.Broken) int { return cmp.Compare(a.SinceMs, b.SinceMs) })
	return all[:min(len(all), maxBroken)]
}
