package quotas

import (
	"context"
	"slices"
	"sync"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/quota"
)

// Use returns the consumers of a namespace at all nodes that answer, and its rates. The error is that of the owner.
func (q *Quotas) Use(ctx context.Context, namespace string) (view.Usage, error) {
	subject := &clusterpb.QuotaSubject{Namespace: namespace}
	rates, err := q.cfg.Owner(ctx, &clusterpb.QuotaCall{
		Subject: subject, Quota: uint32(quota.CallsPerSecond), Op: &clusterpb.QuotaCall_Use{Use: &clusterpb.UseCall{}},
	})
	if err != nil {
		return view.Usage{}, refusal(err)
	}
	consumers := gather(q.answering(), func(id string) int64 {
		reply, err := q.cfg.Node(ctx, id, &clusterpb.QuotaCall{
			Subject: subject, Quota: uint32(quota.MaxConsumers), Op: &clusterpb.QuotaCall_Use{Use: &clusterpb.UseCall{}},
		})
		if err != nil {
			return 0 // the consumers of a node that has gone are gone, too
		}
		return reply.Used
	})
	use := view.Usage{SchedulesPerSecond: rates.SchedulesPerSecond, CallsPerSecond: rates.CallsPerSecond}
	for _, n := range consumers {
		use.Consumers += max(n, 0)
	}
	return use, nil
}

// answering returns the nodes that have answered this one lately.
func (q *Quotas) answering() []string {
	return slices.DeleteFunc(slices.Clone(q.cfg.Members()), func(id string) bool { return !q.cfg.Alive(id) })
}

// names returns the names of a namespace's queues: those with a policy, and those that a shard has tasks of.
func (q *Quotas) names(ctx context.Context, namespace string) ([]string, error) {
	var shards []uint32
	for id := range q.cfg.Slots() {
		shards = append(shards, id)
	}
	type names struct {
		list []string
		err  error
	}
	all := q.cfg.Policies(namespace)
	for _, part := range gather(shards, func(id uint32) names {
		reply, err := q.cfg.Shard(ctx, id, &clusterpb.QuotaCall{
			Subject: &clusterpb.QuotaSubject{Namespace: namespace}, Quota: uint32(quota.MaxQueues),
			Op: &clusterpb.QuotaCall_Names{Names: &clusterpb.NamesCall{}},
		})
		return names{reply.GetNames(), err}
	}) {
		if part.err != nil {
			return nil, part.err
		}
		all = append(all, part.list...)
	}
	return all, nil
}

// gather calls ask for each element side by side, and returns the answers in order.
func gather[E, A any](of []E, ask func(E) A) []A {
	answers := make([]A, len(of))
	var wg sync.WaitGroup
	for i, e := range of {
		wg.Go(func() { answers[i] = ask(e) })
	}
	wg.Wait()
	return answers
}
