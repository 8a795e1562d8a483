package tenancy

import (
	"time"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/quota"
)

// Record returns a key in the vocabulary of package access. It shares the lists of patterns with the key.
func Record(key *clusterpb.ApiKey) access.KeyRecord {
	record := access.KeyRecord{
		ID: key.Id, Name: key.Name,
		Created: instant(key.CreatedMs), Expires: instant(key.ExpiresMs), LastUsed: instant(key.UsedMs),
	}
	for _, g := range key.Grants {
		record.Grants = append(record.Grants, access.Grant{
			Role: access.Role(g.GetRole()), Namespace: g.GetNamespace(), Queues: g.GetQueues(), IDs: g.GetIds(),
		})
	}
	for _, s := range key.Secrets {
		secret := access.KeySecret{Expires: instant(s.GetExpiresMs())}
		copy(secret.Hash[:], s.GetHash())
		record.Secrets = append(record.Secrets, secret)
	}
	return record
}

// Grants returns grants as the state has them.
func Grants(grants []access.Grant) []*clusterpb.KeyGrant {
	var all []*clusterpb.KeyGrant
	for _, g := range grants {
		all = append(all, &clusterpb.KeyGrant{
			Role: clusterpb.KeyRole(g.Role), Namespace: g.Namespace, Queues: g.Queues, Ids: g.IDs,
		})
	}
	return all
}

// instant returns a time of the state; 0 is the zero time.
func instant(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// Limits returns quotas in the vocabulary of package quota. Absent ones limit nothing.
func Limits(q *clusterpb.Quotas) quota.Limits {
	return quota.Limits{
		MaxPending: int64(q.GetMaxPending()), MaxBytes: int64(q.GetMaxBytes()), MaxPayload: int64(q.GetMaxPayload()),
		SchedulesPerSecond: q.GetSchedulesPerSecond(), CallsPerSecond: q.GetCallsPerSecond(),
		MaxConsumers: int64(q.GetMaxConsumers()), MaxQueues: int64(q.GetMaxQueues()), Weight: int64(q.GetWeight()),
	}
}

// Quotas returns limits as the state has them, or nil if they limit nothing.
func Quotas(l quota.Limits) *clusterpb.Quotas {
	if l == (quota.Limits{}) {
		return nil
	}
	return &clusterpb.Quotas{
		MaxPending: uint64(l.MaxPending), MaxBytes: uint64(l.MaxBytes), MaxPayload: uint64(l.MaxPayload),
		SchedulesPerSecond: l.SchedulesPerSecond, CallsPerSecond: l.CallsPerSecond,
		MaxConsumers: uint64(l.MaxConsumers), MaxQueues: uint64(l.MaxQueues), Weight: uint32(l.Weight),
	}
}
