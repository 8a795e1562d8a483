package recovery

import (
	"fmt"
	"strings"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/verify"
)

// Loss says how much of a group is lost.
type Loss string

// The losses: see the package's documentation.
const (
	None     Loss = "none"
	Possible Loss = "possible"
	Certain  Loss = "certain"
	Whole    Loss = "whole"
)

// Plan describes the tasks that a recovery would keep, and the possible loss.
type Plan struct {
	ClusterID string     `json:"cluster_id"` // of the lost cluster
	Survivors []Survivor `json:"survivors"`
	Groups    []Group    `json:"groups"` // the control group, whose number is 0, and the shards
}

// Survivor is the folder of one node.
type Survivor struct {
	Dir    string `json:"data"`
	NodeID string `json:"node_id"`
}

// Group is one Raft group's part of the plan.
type Group struct {
	Number uint32 `json:"shard"` // 0: the control group
	From   string `json:"data"`  // folder of the newest replica; empty: no folder has one
	Loss   Loss   `json:"loss"`
	Voters int    `json:"voters"`  // of the newest configuration
	Held   int    `json:"folders"` // of these voters

	Term   uint64 `json:"term"` // of the last entry
	Index  uint64 `json:"index"`
	At     string `json:"at"`           // instant of that entry, by its leader's clock; empty: not known
	SeenAt uint64 `json:"seen_index"`   // highest index that another voter was seen to hold; 0: none was seen ahead
	SeenBy string `json:"seen_of_node"` // that voter

	Tasks map[string]int `json:"tasks"` // by state
}

// LeastMissing returns the number of log entries that are missing for certain.
func (g Group) LeastMissing() uint64 {
	switch {
	case g.Loss != Certain:
		return 0
	case g.SeenAt <= g.Index:
		return 1 // in a later term than the last entry here
	}
	return g.SeenAt - g.Index
}

// DamagedError is the error of a folder that cannot be read as a whole.
type DamagedError struct {
	Dir      string
	Group    uint32
	Problems []string
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s, group %d, is not sound, so it is not used: %s; leave this folder out if another one has "+
		"what is needed", e.Dir, e.Group, strings.Join(e.Problems, "; "))
}

// candidate is one folder's replica of a group.
type candidate struct {
	dir                 int // index of the folder
	lastTerm, lastIndex uint64
	at                  time.Time
	voters              []string
	tasks               map[string]int
}

func candidateOf(dir int, r *verify.Replayed) candidate {
	return candidate{
		dir: dir, lastTerm: r.LastTerm, lastIndex: r.LastIndex, at: r.LastAt, voters: r.Voters, tasks: r.Tasks,
	}
}

// newer reports whether c's log is more up to date than o's.
func (c candidate) newer(o candidate) bool {
	return c.lastTerm > o.lastTerm || c.lastTerm == o.lastTerm && c.lastIndex > o.lastIndex
}

// lacks reports whether c's log does not reach to an entry that another replica was seen to hold.
func (c candidate) lacks(p *clusterpb.SeenPosition) bool {
	return p.Index > 0 && (p.EntryTerm > c.lastTerm || p.EntryTerm == c.lastTerm && p.Index > c.lastIndex)
}
