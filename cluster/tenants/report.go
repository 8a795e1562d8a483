package tenants

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/internal/wait"
)

// reportEvery is the time between two reports of uses.
const reportEvery = time.Minute

// report tells the leader about the uses of keys, until ctx ends.
func (t *Tenants) report(ctx context.Context) {
	for wait.For(ctx, reportEvery) {
		t.reportUses(ctx)
	}
}

// reportUses reports the keys that were used here in an hour that the cluster does not know. Nearly always that is one
// hour.
func (t *Tenants) reportUses(ctx context.Context) {
	fresh := t.roster.Load().fresh()
	for _, hour := range slices.Sorted(maps.Keys(fresh)) {
		_, err := t.change(ctx, &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_UseKeys{UseKeys: &clusterpb.UseKeys{
			Ids: fresh[hour], HourMs: time.Unix(hour*3600, 0).UnixMilli(),
		}}})
		if err != nil && ctx.Err() == nil {
			t.cfg.Logger.Info("the last uses of keys are not recorded yet", "keys", len(fresh[hour]), "err", err)
		}
	}
}

// fresh returns the sorted ids of keys that were used in an hour later than their record says, by hour.
func (r *roster) fresh() map[int64][]string {
	fresh := make(map[int64][]string)
	for _, id := range slices.Sorted(maps.Keys(r.keys)) {
		k := r.keys[id]
		if hour := k.hour.Load(); hour > 0 && (k.LastUsed.IsZero() || hour > hourOf(k.LastUsed)) {
			fresh[hour] = append(fresh[hour], id)
		}
	}
	return fresh
}
