// Package addressbook keeps on disk where the nodes of the cluster can be reached, so that nodes that start find each
// other although the control group has no leader yet and no gossip is heard.
//
// The book holds two addresses for each node: the one that the control group's state has, and the one at which a dial
// last found the node. Both are hints, like every address: package peer tries all that are known, and each node proves
// its id before a connection is used. So an entry that has become wrong costs a dial.
//
// The book is one small JSON file, replaced whole. A goroutine of its own (Run) writes it after something in it has
// changed; callers never wait for the disk. A file that is missing or cannot be read is an empty book, and a disk that
// takes no write delays the next one: neither stops the node.
package addressbook
