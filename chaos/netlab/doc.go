// Package netlab is a network in a box: hosts that processes can run on, and cables between them that can be broken in
// every way in which networks break.
//
// A host is a Linux network namespace with two interfaces. By Host.Addr it is reached from this process, over a veth
// that the kernel forwards: callers and receivers live here. By Host.PeerAddr the hosts reach each other, over a TAP
// each, whose frames a switch in this process forwards. Every direction between two hosts has a Quality of its own: it
// can be cut, and it can delay, lose, double and reorder packets, by chance out of Config.Seed. Towards outside a host
// can be cut off, in each direction alone; it is silent then, it refuses nothing.
//
// A switch of our own, because the usual tool, netem, is a module that many kernels do not have, and because this way
// each direction of each pair is broken alone, at once and exactly, without rules in a firewall that outlive a crash.
// Not a proxy for each connection, because a proxy acknowledges what the other end never got, and knows nothing of
// packets. What is lost or late here meets the kernel's own TCP, with its retransmissions and its patience.
//
// Packets of one direction keep their order, whatever the jitter, unless Quality.Reorder lets some be overtaken. What
// is under way when a direction is cut is lost. At most 16 MiB are under way in one direction.
//
// # What it costs
//
// The peers' MTU is the largest that there is, 65521, so there are few frames. Two cores shared with other work, both
// ends of a connection in one process:
//
//	a TCP stream          switch 640 MB/s, 0.81 ms of processor time a MiB    kernel 660 MB/s, 0.70 ms
//	200 bytes and back    switch 72 µs, 24 µs of processor time               kernel 52 µs, 17 µs
//
// An idle network costs nothing. But the switch is as quick as this process is let run: heavy computing in it, such as
// judging a history, had better wait until the load is over.
//
// # What it leaves behind
//
// Nothing, also when the process is killed. Namespaces have no names: they live by this process's descriptors and by
// the processes inside, and TAPs and cables go with them. What must be this network's own on this machine, addresses
// and names of interfaces, is claimed by an abstract socket, which the kernel frees. For this reason, too, a host is
// entered with nsenter, not with ip netns exec, which wants a name and gives each process a copy of all mounts: a file
// system that is mounted for a node could then not be unmounted while another node lives.
//
// It needs root, /dev/net/tun and nsenter (of util-linux); Supported says what is missing. What to break, and when, is
// the concern of faults; which process runs on which host is that of stand.
package netlab
