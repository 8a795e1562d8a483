// Package stand is the cluster under test and the stage that it stands on: real processes, and, as far as this machine
// allows, networks, disks and clocks that can be broken from outside.
//
// It knows how to reach and to start things, and who holds which node at the moment: two faults that strike at once
// must not both believe to be the one that starts a node again. What to break and when is faults' and siege's concern;
// how a network or a disk is broken is that of netlab and lossyfs.
package stand
