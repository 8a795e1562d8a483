// Package replicas runs the replicas that the control group places on this node, and answers calls for them.
//
//	Set       opens the replicas that are placed here, and closes them; commits commands through them
//	Handlers  answer the other calls to shards by replicas on this node, and by no others
//
// A replica that cannot be opened does not keep the others from running: its shard has a majority elsewhere. Broken
// reports it, so that the cluster replaces it by a copy, which joins at a later revision. A replica that failed only
// because the disk was full is opened as soon as there is room.
package replicas
