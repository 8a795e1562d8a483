// Package policies changes the policies of queues, and gives the shards on this node the present ones.
//
//	Put, Update, Delete  a caller's change, at any node
//	ChangeHere           commits a change, at the leader of the control group
//	InForce              waits until this node knows a version and the shards that it leads obey it
//	Policy, Watch        the present policies, from the control group's state in memory
//
// A change is committed through the control group's leader. After that, every node that seems alive is asked to answer
// when the new version is in force there. No node polls. The wait ends after a second, because a node that is late will
// read the same log.
//
// Errors and logs contain no secret of a policy.
package policies
