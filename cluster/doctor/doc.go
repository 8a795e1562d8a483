// Package doctor finds the troubles of a cluster in one node's knowledge of it, and names the next step of an operator.
//
//	Snapshot ──▶ Examine ──▶ []Finding, the gravest first
//
//	severity  meaning                                                  example
//	critical  calls are refused or tasks are late now                  quorum-lost
//	warning   one more failure, or some more time, makes it critical   disk-filling
//	note      worth knowing; nothing is wrong                          queue-paused
//
// Examine is a pure function: it asks no node and reads no clock. Package cluster makes the snapshot, also on a node
// without a quorum, from its own state and from the answers of the nodes that answer.
//
//   - A code is stable: alerts and runbooks may refer to it. docs/reference/doctor.md has a section for each code.
//   - A summary is one or two sentences for people. It names nodes by name, and says what Belfry does by itself.
//   - The commands of a finding run in a shell as they are. A summary asks in words for a step whose values Belfry does
//     not know, such as the start of a node that is away.
//   - Several shards with the same trouble are one finding.
//
// # Why not otherwise
//
// Not rules over the metrics: a node without a quorum may be the only one that answers, and then no Prometheus need be
// there. Not in the command: every caller of the API, and every version of the command, gets the same findings.
package doctor
