// Package backups makes backups of the cluster on a schedule. Each node with the setting runs a Schedule; one of them
// makes the backup.
//
//	         due                kept, or failed
//	(none) ───────▶ running ───────────────────▶ last_kept, last_failed
//	                 │   ▲
//	                 └───┘ confirmed every 30 s; without it for 2 min the backup counts as failed
//
// The rules are:
//
//   - The control group holds the record: the running backup, the last that was kept, and the last that failed. Each
//     change names the revision that it is based on. So two nodes that begin at once cannot both succeed.
//   - A backup is due Every after the beginning of the last one. After a failure the next one begins five minutes
//     later, on any node, or Every later if that is sooner.
//   - A node that cannot confirm its backup for two minutes gives it up, because another node may have begun one.
//   - The record is in GET /v1/cluster and in the metrics of every node.
//
// # Why not otherwise
//
//   - Not the leader of the control group: it may be the one node without the setting, and then there would be no
//     backup.
//   - Not the names in the depot: nodes with a folder of their own each would not see the others' backups.
package backups
