package httpapi

import (
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/contract"
)

// appendQueue writes a queue as an object: its policy, and counts unless they are nil.
func appendQueue(b []byte, name string, p *fsmpb.QueuePolicy, counts *fsmpb.QueueCounts) []byte {
	begin := len(b)
	b = contract.AppendText(b, contract.Queue, name)
	b = appendSettings(b, &fsmpb.Spec{Target: p.GetTarget(), Retry: p.GetRetry()})
	b = appendLimits(b, p)
	b = contract.AppendBool(b, contract.Paused, p.GetPaused())
	b = appendSpan(b, contract.KeepDone, p.GetKeepDoneMs())
	b = appendSpan(b, contract.KeepDead, p.GetKeepDeadMs())
	b = appendSigning(b, p.GetSecrets())
	if counts != nil {
		b = appendCounts(contract.AppendName(b, contract.Counts), counts)
	}
	return contract.Close(b, begin)
}

func appendLimits(b []byte, p *fsmpb.QueuePolicy) []byte {
	if n := p.GetMaxInFlight(); n > 0 {
		b = contract.AppendUint(b, contract.MaxInFlight, uint64(n))
	}
	if rate := p.GetMaxPerSecond(); rate > 0 {
		b = contract.AppendFloat(b, contract.MaxPerSecond, rate)
	}
	if n := p.GetBatchMax(); n > 0 {
		b = contract.AppendUint(b, contract.BatchMax, uint64(n))
	}
	return b
}

// appendSigning shows which secrets there are, and no byte of them.
func appendSigning(b []byte, secrets [][]byte) []byte {
	var shown []string
	for _, key := range secrets {
		shown = append(shown, fingerprint(key))
	}
	return contract.AppendSigning(b, shown)
}

func appendCounts(b []byte, c *fsmpb.QueueCounts) []byte {
	begin := len(b)
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

// pending is how many tasks have something before them, dead letters included: all but what is done.
func pending(c *fsmpb.QueueCounts) uint64 {
	return c.GetScheduled() + c.GetReady() + c.GetFiring() + c.GetLeased() + c.GetRetrying() + c.GetDead()
}
