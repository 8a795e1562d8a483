package quotas

import (
	"context"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/quota"
)

// Use returns the consumers of a namespace at all nodes that answer, and its rates. The error is that of the owner.
func (q *Quotas) Use(ctx context.Context, namespace string) (view.Usage, error) {
	subject := &clusterpb.QuotaSubject{Namespace: namespace}
	rates, err := q.carrier.Router.AskOwner(ctx, &clusterpb.QuotaCall{
		Subject: subject, Quota: uint32(quota.CallsPerSecond), Op: &clusterpb.QuotaCall_Use{Use: &clusterpb.UseCall{}},
	})
	if err != nil {
		return view.Usage{}, refusal(err)
	}
	consumers := gather(q.carrier.answering(), func(id string) int64 {
		reply, err := q.carrier.askNode(ctx, id, &clusterpb.QuotaCall{
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
