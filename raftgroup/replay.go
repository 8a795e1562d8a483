package raftgroup

import "github.com/hashicorp/raft"

// replay applies the log after an index, up to the last entry that the previous process had applied. It does not wait
// for a leader. Raft applies no entry of its log before a leader has told it again which entries are committed, so the
// reading of a long log would follow the election. Raft gives the same entries to the applier later, which passes over
// them.
func (g *Group) replay(after uint64) {
	log, last := g.cfg.Storage.Log(), min(g.cfg.Applied, g.raft.LastIndex())
	for index := after + 1; index <= last; index++ {
		var l raft.Log
		if err := log.GetLog(index, &l); err != nil {
			g.cfg.Logger.Info("the rest of the log waits for a leader", "from", index, "err", err)
			return
		}
		if g.ctx.Err() != nil || !g.applier.replay(&l) {
			return
		}
	}
}
