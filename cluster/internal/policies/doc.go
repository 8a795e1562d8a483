// Package policies changes the policies of queues and the calendars, and gives them to the shards on this node.
//
//	Put, Update, Delete  a caller's change, at any node
//	PutCalendar, DeleteCalendar
//	InForce              waits until this node knows a version and the shards that it leads obey it
//	Policy, Watch        the present policies, from the control group's state in memory
//	Calendar             a present calendar, ready to be asked
//	Open                 a policy with its secrets in the clear
//
// A change goes through the client of the control group (control.Replica), which asks every node that seems alive to
// answer when the new version is in force there. Policies and calendars share one version: both take effect through the
// leaders of shards.
//
// Policies of the state may be sealed (see package seal). Callers and deliveries get them opened, and the leader of the
// control group seals them again before it proposes a change. A node without the key still changes all but the secrets.
//
// Errors and logs contain no secret of a policy.
package policies
