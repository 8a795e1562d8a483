package backup

import (
	"fmt"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// CheckHeader returns an error if the header does not describe one whole cluster: each slot in one shard, and in the
// shard's section all tasks of its slots. A shard may own no slots: it is the target of a split that is under way.
func CheckHeader(h *clusterpb.BackupHeader) error {
	sections := make(map[uint32]*clusterpb.BackupShard)
	for _, s := range h.Shards {
		if sections[s.Shard] != nil {
			return fmt.Errorf("the backup has shard %d twice", s.Shard)
		}
		sections[s.Shard] = s
	}
	slots := uint32(0)
	for _, r := range h.GetControl().GetSlots() {
		if r.First != slots || r.End <= r.First {
			return fmt.Errorf("the backup's map of slots is broken at slot %d", slots)
		}
		if err := checkSection(r, sections[r.Shard]); err != nil {
			return err
		}
		slots = r.End
	}
	if slots != task.Slots {
		return fmt.Errorf("the backup's map ends at slot %d of %d", slots, task.Slots)
	}
	return nil
}

// checkSection checks that a shard's section has all tasks of a range of slots.
func checkSection(r *clusterpb.SlotRange, section *clusterpb.BackupShard) error {
	if section == nil {
		return fmt.Errorf("the backup lacks shard %d", r.Shard)
	}
	for _, l := range section.Lacks {
		if l.First < r.End && r.First < l.End {
			return fmt.Errorf("shard %d does not have all tasks of slots %d to %d: they have moved", r.Shard, l.First, l.End-1)
		}
	}
	return nil
}
