package sim

import "github.com/belfryhq/belfry/fsm/fsmpb"

// pushedQueues are the queues whose policies name a target. Their tasks name none.
var pushedQueues = []string{"hooks", "narrow", "rated", "batched"}

// basePolicies returns new copies of the queue policies of an undisturbed cluster.
func basePolicies() []*fsmpb.QueuePolicy {
	pushed := func(p *fsmpb.QueuePolicy) *fsmpb.QueuePolicy {
		p.Target = &fsmpb.Target{Url: target, TimeoutMs: 5000}
		p.Retry = &fsmpb.Retry{MinBackoffMs: 200, MaxBackoffMs: 60_000}
		return p
	}
	return []*fsmpb.QueuePolicy{
		pushed(&fsmpb.QueuePolicy{Queue: pushedQueues[0]}),
		pushed(&fsmpb.QueuePolicy{Queue: pushedQueues[1], MaxInFlight: 2}),
		pushed(&fsmpb.QueuePolicy{Queue: pushedQueues[2], MaxPerSecond: 3}),
		pushed(&fsmpb.QueuePolicy{Queue: pushedQueues[3], BatchMax: 8}),
		{Queue: pulledQueue, Retry: &fsmpb.Retry{MaxAttempts: 50, MinBackoffMs: 100, MaxBackoffMs: 60_000}},
	}
}
