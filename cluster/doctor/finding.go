package doctor

import (
	"cmp"
	"slices"

	"github.com/belfryhq/belfry/client/view"
)

// Severity is the urgency of a finding.
type Severity = view.Severity

// The severities; see package view.
const (
	Critical = view.Critical
	Warning  = view.Warning
	Note     = view.Note
)

func rank(s Severity) int { return slices.Index([]Severity{Critical, Warning, Note}, s) }

// Code names a kind of finding. A code never changes its meaning.
type Code = string

// The codes, in the order of docs/reference/doctor.md.
const (
	QuorumLost   Code = "quorum-lost"
	QuorumAtRisk Code = "quorum-at-risk"
	NoLeader     Code = "no-leader"
	ZoneMajority Code = "zone-majority"
	OneReplica   Code = "one-replica"

	NodeWaits       Code = "node-waits"
	NodeAway        Code = "node-away"
	NodeCutOff      Code = "node-cut-off"
	ClockApart      Code = "clock-apart"
	ClocksDisagree  Code = "clocks-disagree"
	DiskFull        Code = "disk-full"
	DiskFilling     Code = "disk-filling"
	MemoryFull      Code = "memory-full"
	MemoryFilling   Code = "memory-filling"
	AttemptsFull    Code = "attempts-full"
	CertificateEnds Code = "certificate-ends"
	IssuerAway      Code = "issuer-away"

	ReplicaDiverged   Code = "replica-diverged"
	ReplicaMissing    Code = "replica-missing"
	ReplicaBehind     Code = "replica-behind"
	MoveStuck         Code = "move-stuck"
	SlotsStuck        Code = "slots-stuck"
	LeadersUnbalanced Code = "leaders-unbalanced"
	VersionsMixed     Code = "versions-mixed"
	BackupFailing     Code = "backup-failing"

	AuditFailing      Code = "audit-failing"
	ClusterKeyMissing Code = "cluster-key-missing"
	ClusterKeyIdle    Code = "cluster-key-idle"
	SecretsPlain      Code = "secrets-plain"
	KeysUnused        Code = "keys-unused"

	ReceiverBroken  Code = "receiver-broken"
	QueueFailing    Code = "queue-failing"
	QueueBehind     Code = "queue-behind"
	QueueNoConsumer Code = "queue-no-consumer"
	QueueAtLimit    Code = "queue-at-limit"
	QueuePaused     Code = "queue-paused"
	DeadLetters     Code = "dead-letters"
)

// Finding is one trouble, with the commands that help.
type Finding = view.Finding

// Examine returns the findings in a snapshot, the gravest first.
func Examine(s *Snapshot) []Finding {
	e := &examination{Snapshot: s}
	for _, look := range []func(){
		e.node, e.groups, e.zones, e.nodes, e.clocks, e.disks, e.memories, e.attempts, e.certificates, e.issuers,
		e.replicas, e.moves, e.slots, e.leaders, e.versions, e.backups, e.audit, e.secrets, e.apiKeys, e.queues,
		e.readiness,
	} {
		look()
	}
	slices.SortStableFunc(e.found, func(a, b Finding) int { return cmp.Compare(rank(a.Severity), rank(b.Severity)) })
	return e.found
}

// Wait returns the finding about a node that has not opened its data folder, or takes no part, for this reason. It is
// all that such a node knows.
func Wait(reason, dataDir string) Finding {
	return Finding{
		Severity: Critical, Code: NodeWaits,
		Summary: sentence("the node asked serves no calls: %s. Ask another node too.", reason),
		Do:      []string{command("belfry verify", dataDir)},
	}
}

// examination collects the findings in a snapshot.
type examination struct {
	*Snapshot
	found []Finding
}

func (e *examination) add(severity Severity, code Code, summary string, do ...string) {
	e.found = append(e.found, Finding{Severity: severity, Code: code, Summary: summary, Do: do})
}
