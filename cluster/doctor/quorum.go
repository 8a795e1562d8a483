package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// ballot is the state of a group's voters.
type ballot struct {
	voters  []string
	present []string // voters that have their replica open and answer
}

func (g Group) ballot() ballot {
	var b ballot
	for _, r := range g.Replicas {
		if !r.Voter {
			continue
		}
		b.voters = append(b.voters, r.Node)
		if r.Present {
			b.present = append(b.present, r.Node)
		}
	}
	slices.Sort(b.voters)
	slices.Sort(b.present)
	return b
}

func (b ballot) majority() int { return len(b.voters)/2 + 1 }

func (b ballot) absent() []string {
	return slices.DeleteFunc(slices.Clone(b.voters), func(id string) bool { return slices.Contains(b.present, id) })
}

func (b ballot) lost() bool   { return len(b.present) < b.majority() }
func (b ballot) atRisk() bool { return len(b.voters) > 1 && len(b.present) == b.majority() }

// key is equal for groups whose voters are in the same state.
func (b ballot) key() string { return fmt.Sprint(b.voters, b.present) }

// alike are groups with equal ballots.
type alike struct {
	ballot
	shards []uint32
}

// gather joins the groups whose voters are alike and pass the filter, in the order of the groups.
func (e *examination) gather(filter func(Group, ballot) bool) []*alike {
	var all []*alike
	at := make(map[string]*alike)
	for _, g := range e.Groups {
		b := g.ballot()
		if len(b.voters) == 0 || !filter(g, b) {
			continue
		}
		a := at[b.key()]
		if a == nil {
			a = &alike{ballot: b}
			at[b.key()] = a
			all = append(all, a)
		}
		a.shards = append(a.shards, g.Shard)
	}
	return all
}

// groups finds groups that have lost their majority, may lose it at the next failure, or have no leader.
func (e *examination) groups() {
	for _, a := range e.gather(func(_ Group, b ballot) bool { return b.lost() }) {
		e.quorumLost(a)
	}
	for _, a := range e.gather(func(_ Group, b ballot) bool { return b.atRisk() }) {
		e.quorumAtRisk(a)
	}
	for _, a := range e.gather(func(g Group, b ballot) bool { return !b.lost() && g.Leader == "" }) {
		e.add(Critical, NoLeader, sentence("%s %s no leader, though %d of %d voters answer. An election takes about a "+
			"second. If this lasts, the voters do not reach each other, or their clocks are apart.",
			groupsNamed(a.shards), verb(len(a.shards), "has", "have"), len(a.present), len(a.voters)),
			"belfry cluster status")
	}
	for _, a := range e.gather(func(g Group, b ballot) bool { return len(b.voters) == 1 && g.Shard != 0 }) {
		e.oneReplica(a)
	}
}

func (e *examination) quorumLost(a *alike) {
	needed := a.majority() - len(a.present)
	effect := "Its tasks are safe, and its calls are refused and nothing fires"
	switch {
	case len(a.shards) > 1:
		effect = "Their tasks are safe, and their calls are refused and nothing fires"
	case a.shards[0] == 0:
		effect = "Shards with a majority go on, and no queue, node or placement can be changed"
	}
	e.add(Critical, QuorumLost, sentence("%s %s lost the majority: of %d voters %s. %s, until %d more of %s %s back. "+
		"Start them as they were started before. If their disks are gone, stop all nodes and recover the cluster from the "+
		"data folders of the rest, each with a --data of its own.",
		groupsNamed(a.shards), verb(len(a.shards), "has", "have"), len(a.voters), e.answering(a), effect,
		needed, e.names(a.absent()), verb(needed, "is", "are")),
		command("belfry recover --lost-quorum --data", e.DataDir, "--to", e.DataDir+"-recovered"))
}

// answering says which voters answer.
func (e *examination) answering(a *alike) string {
	if len(a.present) == 0 {
		return "none answers"
	}
	return fmt.Sprintf("only %s %s", e.names(a.present), verb(len(a.present), "answers", "answer"))
}

func (e *examination) quorumAtRisk(a *alike) {
	why := fmt.Sprintf("%s %s away", e.names(a.absent()), verb(len(a.absent()), "is", "are"))
	if len(a.absent()) == 0 {
		why = fmt.Sprintf("%s %s only %d voters", pronoun(a.shards), verb(len(a.shards), "has", "have"), len(a.voters))
	}
	e.add(Warning, QuorumAtRisk, sentence("%s %s at the next failure: %s, and %d of %d voters are the least that decide.",
		groupsNamed(a.shards), verb(len(a.shards), "stops", "stop"), why, len(a.present), len(a.voters)),
		"belfry cluster status")
}

func pronoun(shards []uint32) string { return verb(len(shards), "it", "they") }

// oneReplica finds shards that live on one node only.
func (e *examination) oneReplica(a *alike) {
	severity := Warning
	if len(e.Nodes) == 1 {
		severity = Note
	}
	e.add(severity, OneReplica, sentence("%s %s one replica, on %s: nothing fires while that node is down, and its disk "+
		"has the only copy. Two more nodes make three replicas: run the command on two other machines.",
		groupsNamed(a.shards), verb(len(a.shards), "has", "have"), e.names(a.voters)), e.join(a.voters))
}

// join returns the command of a new node that joins the cluster by one of these nodes, or by another one.
func (e *examination) join(nodes []string) string {
	for _, id := range append(slices.Clone(nodes), e.Self) {
		if n := e.find(id); n != nil && n.Peer != "" {
			return command("belfry serve --join", n.Peer)
		}
	}
	return "belfry cluster status"
}

// zones finds groups of which one zone has a majority of the voters. A node without a zone is a zone of its own.
func (e *examination) zones() {
	zones := make(map[string]bool)
	for _, n := range e.Nodes {
		zones[n.domain()] = true
	}
	if len(zones) < 2 {
		return
	}
	var order []string
	held := make(map[string][]uint32)
	for _, g := range e.Groups {
		if zone := e.dominant(g); zone != "" {
			if held[zone] == nil {
				order = append(order, zone)
			}
			held[zone] = append(held[zone], g.Shard)
		}
	}
	for _, zone := range order {
		e.zoneMajority(zone, held[zone], len(zones))
	}
}

func (e *examination) zoneMajority(zone string, shards []uint32, zones int) {
	text := sentence("zone %s has the majority of %s: if the zone fails, %s.", zone, groupsNamed(shards),
		verb(len(shards), "that stops", "they stop"))
	if zones == 2 {
		e.add(Note, ZoneMajority, text+" Two zones cannot avoid it; three can. Start a node in a third one, with its name "+
			"as --zone.", "belfry cluster status")
		return
	}
	e.add(Warning, ZoneMajority, text+" Other zones have nodes that could hold a replica.", "belfry cluster status")
}

// domain returns the zone of a node; nodes without one get a name that no zone has.
func (n Node) domain() string {
	if n.Zone == "" {
		return "/" + n.ID
	}
	return n.Zone
}

// dominant returns the zone that has a majority of a group's voters, among groups of several voters. Empty: no zone of
// that name has.
func (e *examination) dominant(g Group) string {
	b := g.ballot()
	if len(b.voters) < 2 {
		return ""
	}
	in := make(map[string]int)
	for _, id := range b.voters {
		if n := e.find(id); n != nil {
			in[n.domain()]++
		}
	}
	for zone, voters := range in {
		if voters >= b.majority() && !strings.HasPrefix(zone, "/") {
			return zone
		}
	}
	return ""
}
