package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// node finds that this node does not serve.
func (e *examination) node() {
	switch {
	case e.Waits != "":
		e.found = append(e.found, Wait(e.Waits, e.DataDir))
	case !e.InCluster:
		e.add(Critical, NodeWaits, "The node asked is in no cluster yet: it looks for the nodes of belfry serve --join, "+
			"and for as many as --bootstrap-expect says.")
	}
}

// nodes finds nodes that do not answer, or refuse, or are cut off from some of the others.
func (e *examination) nodes() {
	for i := range e.Nodes {
		switch n := &e.Nodes[i]; {
		case n.ID == e.Self:
		case n.Refused != "":
			e.waits(n, n.Refused)
		case n.Waits != "":
			e.waits(n, n.Waits)
		case !n.Answers && len(e.hearing(n.ID)) > 0:
			e.cutOff(n, e.hearing(n.ID))
		case !n.Answers:
			e.away(n)
		}
	}
}

func (e *examination) waits(n *Node, reason string) {
	e.add(Warning, NodeWaits, sentence("node %s runs and takes no part: %s.", n.Name, reason), n.ask()...)
}

// readiness finds nodes that take part and are not ready, unless a critical finding explains it.
func (e *examination) readiness() {
	if slices.ContainsFunc(e.found, func(f Finding) bool { return f.Severity == Critical }) {
		return
	}
	for _, n := range e.Nodes {
		if n.NotReady != "" && n.Waits == "" {
			e.add(Warning, NodeWaits, sentence("node %s is not ready yet: %s.", n.Name, n.NotReady),
				command("belfry doctor --addr", n.URL))
		}
	}
}

// ask returns the commands that ask a node that answers for itself.
func (n *Node) ask() []string {
	do := []string{command("belfry doctor --addr", n.URL)}
	if n.DataDir != "" {
		do = append(do, command("belfry verify", n.DataDir))
	}
	return do
}

// hearing returns the nodes that answer this node and hear another.
func (e *examination) hearing(id string) []string {
	var all []string
	for _, n := range e.Nodes {
		if n.Answers && n.ID != e.Self && slices.Contains(n.Hears, id) {
			all = append(all, n.ID)
		}
	}
	return all
}

func (e *examination) cutOff(n *Node, hearing []string) {
	e.add(Warning, NodeCutOff, sentence("%s and %s do not reach each other, and %s %s %s: a connection between "+
		"machines is "+
		"broken, or a firewall is in the "+
		"way.", e.name(e.Self), n.Name, e.names(hearing), verb(len(hearing), "reaches", "reach"), n.Name),
		command("belfry doctor --addr", n.URL))
}

func (e *examination) away(n *Node) {
	since := "has not answered for " + span(n.Silent)
	if n.Unheard {
		since = fmt.Sprintf("has not answered since %s started %s ago", e.name(e.Self), span(n.Silent))
	}
	do := []string{"belfry cluster status"}
	if n.Missed >= longAway && !n.Leaves {
		do = append(do, e.farewell(n))
	}
	e.add(Warning, NodeAway, sentence("node %s %s. %s", n.Name, since, e.prospect(n)), do...)
}

// longAway is the time after which a node that is away may be gone for ever.
const longAway = 5 * time.Minute

// farewell returns the command that takes a node out of the cluster whose disk is lost.
func (e *examination) farewell(n *Node) string {
	name := n.Name
	if same := func(other Node) bool { return other.ID != n.ID && strings.EqualFold(other.Name, name) }; name == "" ||
		slices.ContainsFunc(e.Nodes, same) {
		name = n.ID
	}
	if e.holds(n.ID) {
		return command("belfry node replace", name)
	}
	return command("belfry node remove", name)
}

// prospect returns a sentence on the future of a node that is away: Belfry replaces it, or waits for it.
func (e *examination) prospect(n *Node) string {
	const catchesUp = "Start it as it was started before: it catches up by itself."
	switch left := e.ReplaceAfter - n.Missed; {
	case !e.holds(n.ID):
		return "It holds no replica."
	case e.ReplaceAfter == 0:
		return "Shards that keep a majority go on without it. No node takes its replicas while the control group has no " +
			"leader. " + catchesUp
	case n.Leaves || left <= 0:
		return "Its replicas move to other nodes, as far as there are enough. " + catchesUp
	default:
		return fmt.Sprintf("In %s its replicas move to other nodes, if there are enough. %s", span(left), catchesUp)
	}
}

// holds reports whether a node should have a replica.
func (e *examination) holds(node string) bool {
	return slices.ContainsFunc(e.Groups, func(g Group) bool {
		return g.Shard != 0 && slices.ContainsFunc(g.Replicas, func(r Replica) bool { return r.Node == node })
	})
}

// clocks finds nodes whose clock is further than the bound from the median.
func (e *examination) clocks() {
	var leads []time.Duration
	for _, n := range e.Nodes {
		if n.ClockKnown {
			leads = append(leads, n.Clock)
		}
	}
	if len(leads) < 2 || e.MaxClockOffset == 0 {
		return
	}
	slices.Sort(leads)
	median := leads[(len(leads)-1)/2]
	near := func(lead time.Duration) bool { return (lead - median).Abs() <= e.MaxClockOffset }
	apart := slices.DeleteFunc(slices.Clone(leads), near)
	if 2*(len(leads)-len(apart)) <= len(leads) {
		e.add(Critical, ClocksDisagree, fmt.Sprintf("No majority of the nodes keeps one time: their clocks are up to %s "+
			"apart, "+
			"and %s are allowed. Shards whose leaders find no majority of one time fire nothing. Belfry sets no clock.",
			span(leads[len(leads)-1]-leads[0]), span(e.MaxClockOffset)), "belfry cluster status")
		return
	}
	for _, n := range e.Nodes {
		if n.ClockKnown && !near(n.Clock) {
			e.clockApart(n, n.Clock-median)
		}
	}
}

func (e *examination) clockApart(n Node, by time.Duration) {
	side := "ahead of"
	if by < 0 {
		side = "behind"
	}
	e.add(Warning, ClockApart, sentence("the clock of %s is %s %s the others', and %s are allowed. The node leads no "+
		"shard that "+
		"another can lead, until its clock is right. Belfry sets no clock.", n.Name, span(by.Abs()), side,
		span(e.MaxClockOffset)), "belfry cluster status")
}

// The least time that certificates should last.
const (
	keysWarn  = 30 * 24 * time.Hour
	keysAlarm = 3 * 24 * time.Hour
)

// certificates finds certificates that end soon.
func (e *examination) certificates() {
	for _, n := range e.Nodes {
		e.certificate(n.KeysEnd, sentence("the certificate of %s, or of its CA,", n.Name), "Without a valid one, other "+
			"nodes accept no new connection of the node.")
		e.certificate(n.HTTPKeysEnd, sentence("the certificate that %s shows to callers", n.Name), "Without a valid one, "+
			"callers open no new connection to the node. It is in the file of --http-cert, which the node reads again "+
			"without a restart.")
	}
}

// certificate finds a certificate that ends soon, or has ended. 0 stands for no certificate.
func (e *examination) certificate(left time.Duration, subject, effect string) {
	severity := Warning
	switch {
	case left == 0 || left > keysWarn:
		return
	case left <= keysAlarm:
		severity = Critical
	}
	end := "ends in " + span(left)
	if left < 0 {
		end = "has ended " + span(-left) + " ago"
	}
	e.add(severity, CertificateEnds, fmt.Sprintf("%s %s. %s", subject, end, effect), "belfry certs show",
		"belfry certs rotate")
}

// issuers finds nodes whose keys of the issuer of tokens are missing or not fresh.
func (e *examination) issuers() {
	for _, n := range e.Nodes {
		if n.IssuerFault == "" {
			continue
		}
		severity, effect := Critical, "It has no keys of the issuer, so it answers tokens with 503. API keys and "+
			"certificates work."
		if n.IssuerKeys > 0 {
			severity, effect = Warning, fmt.Sprintf("The issuer's keys that it has are %s old: it answers tokens of newer "+
				"keys with 503, and takes those of withdrawn ones.", span(n.IssuerKeys))
		}
		e.add(severity, IssuerAway, sentence("node %s does not get the keys of the issuer of tokens: %s. %s", n.Name,
			n.IssuerFault, effect))
	}
}
