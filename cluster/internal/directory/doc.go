// Package directory knows the nodes of this node's cluster and the addresses at which each of them may be.
//
//	question                         sources, the best first
//	addresses of a node              where it was last reached, where it is registered (both also in the address book),
//	                                 gossip, --join
//	nodes of the cluster             the control group's state; while that may be old, also the address book and the
//	                                 promise by which the cluster was formed
//	may a node with this name enter  the control group's state; while a cluster is being formed, also gossip
//
// A wrong address costs a moment, because the answering node proves its id (see package peer). The directory decides
// nothing: the control group does.
package directory
