// Package addressbook keeps the addresses of the cluster's nodes on disk. So starting nodes find each other while the
// control group has no leader yet and no gossip arrives.
//
//	registered   the address in the control group's state
//	reached      the address at which a dial last found the node
//
// Both are hints, like every address: package peer tries all known addresses, and each node proves its id before a
// connection is used. So a wrong entry costs a dial.
//
// The book is one small JSON file, replaced whole. A goroutine of its own (Run) writes it after a change; callers never
// wait for the disk. A missing or unreadable file is an empty book, and a disk that takes no write delays the next one:
// neither stops the node.
package addressbook
