package httpapi

import (
	"strconv"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// appendQueue writes a queue as an object: what its policy says, and counts unless they are nil.
func appendQueue(b []byte, name string, p *fsmpb.QueuePolicy, counts *fsmpb.QueueCounts) []byte {
	b = appendString(append(b, `{"queue":`...), name)
	b = appendSettings(b, &fsmpb.Spec{Target: p.GetTarget(), Retry: p.GetRetry()})
	b = appendLimits(b, p)
	b = strconv.AppendBool(append(b, `,"paused":`...), p.GetPaused())
	b = appendSpan(b, `,"keep_done":`, p.GetKeepDoneMs())
	b = appendSpan(b, `,"keep_dead":`, p.GetKeepDeadMs())
	b = appendSigning(b, p.GetSecrets())
	if counts != nil {
		b = appendCounts(append(b, `,"counts":`...), counts)
	}
	return append(b, '}')
}

func appendLimits(b []byte, p *fsmpb.QueuePolicy) []byte {
	if n := p.GetMaxInFlight(); n > 0 {
		b = strconv.AppendUint(append(b, `,"max_in_flight":`...), uint64(n), 10)
	}
	if rate := p.GetMaxPerSecond(); rate > 0 {
		b = strconv.AppendFloat(append(b, `,"max_per_second":`...), rate, 'f', -1, 64)
	}
	if n := p.GetBatchMax(); n > 0 {
		b = strconv.AppendUint(append(b, `,"batch_max":`...), uint64(n), 10)
	}
	return b
}

// appendSigning shows which secrets there are, and no byte of them.
func appendSigning(b []byte, secrets [][]byte) []byte {
	if len(secrets) == 0 {
		return b
	}
	b = append(b, `,"signing":{"secrets":[`...)
	for i, key := range secrets {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, fingerprint(key))
	}
	return append(b, "]}"...)
}

func appendCounts(b []byte, c *fsmpb.QueueCounts) []byte {
	b = append(b, '{')
	for _, n := range []struct {
		name  string
		value uint64
	}{
		{`"scheduled":`, c.GetScheduled()}, {`,"ready":`, c.GetReady()}, {`,"firing":`, c.GetFiring()},
		{`,"leased":`, c.GetLeased()}, {`,"retrying":`, c.GetRetrying()}, {`,"delivered":`, c.GetDelivered()},
		{`,"dead":`, c.GetDead()}, {`,"cancelled":`, c.GetCancelled()}, {`,"due_1m":`, c.GetDue_1M()},
		{`,"due_1h":`, c.GetDue_1H()}, {`,"due_1d":`, c.GetDue_1D()},
	} {
		b = strconv.AppendUint(append(b, n.name...), n.value, 10)
	}
	return append(appendOptionalInstant(append(b, `,"oldest_overdue":`...), c.GetOldestOverdueMs()), '}')
}

// pending is how many tasks have something before them, dead letters included: all but what is done.
func pending(c *fsmpb.QueueCounts) uint64 {
	return c.GetScheduled() + c.GetReady() + c.GetFiring() + c.GetLeased() + c.GetRetrying() + c.GetDead()
}
