package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// farBehind is the number of log entries that a replica may lack without being reported.
const farBehind = 10_000

// replicas finds replicas that differ from the others, are not open on a node that answers, or lack much of the log.
func (e *examination) replicas() {
	missing := make(map[string][]uint32)
	for _, g := range e.Groups {
		for _, r := range g.Replicas {
			n := e.find(r.Node)
			switch {
			case r.Diverged:
				e.diverged(g, r)
			case n != nil && n.Answers && n.Waits == "" && !r.Present:
				missing[r.Node] = append(missing[r.Node], g.Shard)
			case r.Present && lag(g, r) > farBehind:
				e.add(Warning, ReplicaBehind, sentence("the replica of %s on %s lacks %d log entries and catches up. It does "+
					"not lead "+
					"meanwhile.", groupsNamed([]uint32{g.Shard}), e.name(r.Node), lag(g, r)), "belfry cluster status")
			}
		}
	}
	for i := range e.Nodes {
		n := &e.Nodes[i]
		if shards := missing[n.ID]; len(shards) > 0 {
			e.add(Warning, ReplicaMissing, sentence("%s answers and has not opened its replica of %s: it is starting, or "+
				"its log "+
				"says why it cannot.", n.Name, groupsNamed(shards)), n.ask()...)
		}
	}
}

// lag returns the number of log entries that a replica lacks of the leader's.
func lag(g Group, r Replica) uint64 {
	for _, leader := range g.Replicas {
		if leader.Node == g.Leader && leader.Applied > r.Applied && r.Applied > 0 {
			return leader.Applied - r.Applied
		}
	}
	return 0
}

func (e *examination) diverged(g Group, r Replica) {
	e.add(Critical, ReplicaDiverged, sentence("the replica of %s on %s differs from another at the same log index. If "+
		"a majority "+
		"outvotes it, it does not lead, and a copy of the others' replaces it by itself.",
		groupsNamed([]uint32{g.Shard}), e.name(r.Node)), "belfry cluster status")
}

// stuckAfter is the time for which the next step of a move may be blocked without being reported.
const stuckAfter = time.Minute

// moves finds changes of a shard's replicas that do not go on.
func (e *examination) moves() {
	for _, m := range e.Moves {
		if m.Blocked == "" || m.For < stuckAfter {
			continue
		}
		e.add(Warning, MoveStuck, sentence("the move of %s from %s to %s has waited for %s: %s. It goes on by itself "+
			"when that has "+
			"changed; the shard serves meanwhile.", groupsNamed([]uint32{m.Shard}), e.names(m.From), e.names(m.To), span(m.For),
			m.Blocked), "belfry cluster status")
	}
}

// The bounds of a move of slots that needs no report. Calls on slots that have no owner wait for some tens of
// milliseconds, and fail after seconds.
const (
	callsWaitAtMost = 5 * time.Second
	triesAtMost     = 2 // that were given up
)

// slots finds moves of slots that do not go on, or are given up again and again.
func (e *examination) slots() {
	for _, m := range e.SlotMoves {
		severity, state, meanwhile := Warning, "", "Both shards serve meanwhile."
		switch {
		case m.CallsWait && m.Still > callsWaitAtMost:
			severity, state = Critical, "has not gone on for "+span(m.Still)
			meanwhile = "Calls on these slots wait, and their tasks do not fire until it goes on."
		case m.Still >= stuckAfter:
			state = "has not gone on for " + span(m.Still)
		case m.GivenUp > triesAtMost:
			state = fmt.Sprintf("was given up %d times, and begins anew each time", m.GivenUp)
		default:
			continue
		}
		e.add(severity, SlotsStuck, fmt.Sprintf("The move of %d slots from shard %d to shard %d %s: %s. %s", m.Slots, m.From,
			m.To, state, cmp.Or(m.Reason, "the reason is not known"), meanwhile),
			"belfry shards list", "belfry operation list")
	}
}

// leaders finds that many shards are led by another node than the preferred one although that one is fit.
func (e *examination) leaders() {
	shards := 0
	var astray []uint32
	for _, g := range e.Groups {
		if g.Shard == 0 {
			continue
		}
		shards++
		home := e.find(g.Preferred)
		if g.Leader != "" && home != nil && g.Leader != g.Preferred && home.Answers && !home.DiskLow && home.Waits == "" {
			astray = append(astray, g.Shard)
		}
	}
	if len(astray) < max(2, shards/4) {
		return
	}
	e.add(Warning, LeadersUnbalanced, sentence("%d of %d shards are led by another node than the one that should: %s. "+
		"Belfry "+
		"gives leaderships back within a minute after a node has returned.", len(astray), shards, groupsNamed(astray)),
		"belfry cluster status")
}

// versions finds nodes that run different builds, or keep the cluster from writing the newest format.
func (e *examination) versions() {
	builds := make(map[string][]string)
	newest, behind := e.CommandVersion, []string(nil)
	for _, n := range e.Nodes {
		if n.Build != "" {
			builds[n.Build] = append(builds[n.Build], n.Name)
		}
		newest = max(newest, n.CommandVersion)
	}
	for _, n := range e.Nodes {
		if n.CommandVersion > 0 && n.CommandVersion < newest {
			behind = append(behind, n.ID)
		}
	}
	switch {
	case len(behind) > 0:
		e.add(Warning, VersionsMixed, sentence("the cluster writes format %d, and newer nodes know %d: %s %s an older "+
			"build, or %s "+
			"not been started since the upgrade. The format rises by itself after that; until then the upgrade can be undone.",
			e.CommandVersion, newest, e.names(behind), verb(len(behind), "runs", "run"), verb(len(behind), "has", "have")),
			"belfry cluster status")
	case len(builds) > 1:
		e.add(Note, VersionsMixed, "The nodes run different builds: "+describe(builds)+". Finish the upgrade node by node.",
			"belfry cluster status")
	}
}

// describe lists builds with their nodes.
func describe(builds map[string][]string) string {
	var parts []string
	for build, nodes := range builds {
		slices.Sort(nodes)
		parts = append(parts, fmt.Sprintf("%s on %s", build, list(nodes)))
	}
	slices.Sort(parts)
	return strings.Join(parts, "; ")
}

// backups finds that the newest backup failed.
func (e *examination) backups() {
	if e.Backup.Failed == "" {
		return
	}
	whole := "No whole one is known."
	if e.Backup.Since > 0 {
		whole = "The newest whole one is " + span(e.Backup.Since) + " old."
	}
	e.add(Warning, BackupFailing, fmt.Sprintf("The newest backup failed: %s. %s", e.Backup.Failed, whole),
		"belfry backup --to belfry.backup")
}
