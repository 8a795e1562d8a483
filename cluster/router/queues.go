package router

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/quota"
	"github.com/belfryhq/belfry/shard"
)

// Queues asks every shard's leader for the number of its tasks in a queue, or in each queue, and adds the answers up.
// Each shard's part is linearizable by itself. The sums are sorted by queue; queues without tasks are left out.
func (r *Router) Queues(ctx context.Context, ask *clusterpb.QueuesCall) ([]*fsmpb.QueueCounts, error) {
	count := func(ctx context.Context, s calls.Shards, id uint32) ([]*fsmpb.QueueCounts, error) {
		return s.Queues(ctx, id, ask)
	}
	counts, err := eachShard(ctx, r, count)
	if err != nil {
		return nil, err
	}
	return addUp(counts), nil
}

// NamespaceUse asks every shard's leader for the use of a namespace, and adds the answers up. Each shard's part is
// linearizable by itself. Queues is the largest number in one shard.
func (r *Router) NamespaceUse(ctx context.Context, namespace string) (task.NamespaceUse, error) {
	sum := task.NamespaceUse{Namespace: task.CanonicalNamespace(namespace)}
	parts, err := eachShard(ctx, r, func(ctx context.Context, s calls.Shards, id uint32) (task.NamespaceUse, error) {
		return s.NamespaceUse(ctx, id, namespace)
	})
	for _, part := range parts {
		sum.Add(part)
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
	return read(ctx, r, id, false, func(ctx context.Context, s calls.Shards) (*clusterpb.QuotaReply, error) {
		return s.Quota(ctx, id, call)
	})
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
	for _, s := range r.cfg.State().Slots {
		counts[s.Shard] += int64(s.End - s.First)
	}
	return counts
}

// eachShard asks the leaders of all shards side by side, and returns their answers.
func eachShard[T any](
	ctx context.Context, r *Router, ask func(ctx context.Context, s calls.Shards, id uint32) (T, error),
) ([]T, error) {
	ctx, cancel := r.patient(ctx)
	defer cancel()
	shards := r.shards()
	if len(shards) == 0 {
		return nil, errNoMap
	}
	answers, errs := askAll(ctx, r, shards, ask)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return answers, nil
}

// askAll asks the leaders of shards side by side. The answers and errors are in the order of the shards.
func askAll[T any](
	ctx context.Context, r *Router, shards []uint32,
	ask func(ctx context.Context, s calls.Shards, id uint32) (T, error),
) (answers []T, errs []error) {
	answers, errs = make([]T, len(shards)), make([]error, len(shards))
	var wg sync.WaitGroup
	for i, id := range shards {
		wg.Go(func() {
			answers[i], errs[i] = read(ctx, r, id, false, func(ctx context.Context, s calls.Shards) (T, error) {
				return ask(ctx, s, id)
			})
		})
	}
	wg.Wait()
	return answers, errs
}

// shards returns every shard that owns slots, sorted.
func (r *Router) shards() []uint32 {
	var ids []uint32
	for _, s := range r.cfg.State().Slots {
		ids = append(ids, s.Shard)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func addUp(counts [][]*fsmpb.QueueCounts) []*fsmpb.QueueCounts {
	byQueue := make(map[string]*fsmpb.QueueCounts)
	var sums []*fsmpb.QueueCounts
	for _, part := range counts {
		for _, c := range part {
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

// lendPatience limits one search for the lender and the lender's own waiting. After that the borrower looks again.
const lendPatience = 2 * time.Second

// Borrow asks the leader of the shard that owns a queue's limits for permits, on whichever node. With AskGroups and
// LookGroups, it makes Router a shard.Limits.
func (r *Router) Borrow(ctx context.Context, ask shard.Borrow) (shard.Loan, error) {
	ctx, cancel := context.WithTimeout(ctx, lendPatience)
	defer cancel()
	l := r.layout()
	if l == nil {
		return shard.Loan{}, errNoMap
	}
	owner := l.slots[ownerSlot(ask.Namespace, ask.Queue)].Shard
	return read(ctx, r, owner, false, func(ctx context.Context, s calls.Shards) (shard.Loan, error) {
		return s.Lend(ctx, owner, ask)
	})
}

var _ shard.Limits = (*Router)(nil)

// AskGroups asks the leader of the shard that owns a queue for permits of its groups.
func (r *Router) AskGroups(ctx context.Context, ask shard.GroupsAsk) (shard.GroupsAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, lendPatience)
	defer cancel()
	l := r.layout()
	if l == nil {
		return shard.GroupsAnswer{}, errNoMap
	}
	slot := l.slots[ownerSlot(ask.Namespace, ask.Queue)]
	ask.Epoch = slot.Epoch
	return read(ctx, r, slot.Shard, false, func(ctx context.Context, s calls.Shards) (shard.GroupsAnswer, error) {
		return s.AskGroups(ctx, slot.Shard, ask)
	})
}

// LookGroups asks the leaders of all shards where groups of a queue stand.
func (r *Router) LookGroups(ctx context.Context, look shard.GroupsLook) ([]shard.GroupsStanding, error) {
	return eachShard(ctx, r, func(ctx context.Context, s calls.Shards, id uint32) (shard.GroupsStanding, error) {
		return s.LookGroups(ctx, id, look)
	})
}

// ownerSlot spreads the queues over the shards. Task ids have no slash, so no id can be made to share a queue's key.
func ownerSlot(namespace, queue string) uint32 { return task.Slot(namespace, "queue/"+queue) }
