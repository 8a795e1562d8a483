// Package stand is the cluster under test and its stage: real processes, and, as far as this machine allows, networks,
// disks and clocks that can be broken from outside.
//
//	processes  killed, paused, stopped and started     Stand's own methods
//	network    a host for each node                    netlab
//	disks      a disk for each node                    lossyfs
//	clocks     an offset of each node's wall clock     Shared
//	gossip     a switch for each node                  Shared
//	memory     a control group for each node           Memory
//	builds     another build for each node             Change
//	API keys   an admin key, and a node without it     Config.Keys
//
// Package stand reaches and starts the nodes. It also records which fault holds which node: two faults that strike at
// once must not both start the same node again. Packages faults and siege decide which parts to break and when.
package stand
