// Package memnet is a network in the memory of one process, for tests in testing/synctest bubbles: a goroutine that
// waits for a real socket would stop the bubble's clock. Hosts have loopback addresses, and each address a listener for
// connections and a socket for packets. Connections are as those of TCP: they have buffers, deadlines, halves that
// close alone, and resets.
//
// A network loses nothing and has no latency. Of the faults of networks it has one: a Host can be cut off. Others
// belong to packages netlab and sim of chaos.
package memnet
