// Package netlab is a network in a box: hosts that processes can run on, and cables between them that can be broken in
// every way in which networks break.
//
//	Host.Addr      host <- veth -> this process           callers and receivers live here
//	Host.PeerAddr  host <- TAP -> switch <- TAP -> host   a Quality for each direction of each pair
//
// Hosts, cables and packets follow these rules:
//
//   - A host is a Linux network namespace with two interfaces.
//   - The kernel forwards the veth between a host and this process. CutOutside cuts it in each direction alone. A host
//     that is cut off is silent; it refuses nothing.
//   - A switch in this process forwards the frames between the hosts' TAPs. Each direction between two hosts has its
//     own Quality: it can be cut, and it can delay, lose, double and reorder packets. Config.Seed decides all random
//     choices.
//   - Packets of one direction keep their order whatever the jitter, unless Quality.Reorder lets some be overtaken.
//   - Packets under way are lost when their direction is cut. At most 16 MiB are under way in one direction.
//
// # Why a switch in this process
//
//   - Not netem, the usual tool: it is a module that many kernels do not have. The switch breaks each direction of each
//     pair alone, at once and exactly, without firewall rules that outlive a crash.
//   - Not a proxy for each connection: a proxy acknowledges bytes that the other end never got, and knows nothing of
//     packets. Here losses and delays meet the kernel's own TCP, with its retransmissions and its patience.
//
// # Costs
//
// The peers' MTU is 65521, the largest possible, so that there are few frames. Two cores shared with other work, both
// ends of a connection in one process:
//
//	a TCP stream          switch 640 MB/s, 0.81 ms of processor time a MiB    kernel 660 MB/s, 0.70 ms
//	200 bytes and back    switch 72 µs, 24 µs of processor time               kernel 52 µs, 17 µs
//
// An idle network costs nothing. But the switch needs this process's share of the processor: heavy computing, such as
// judging a history, should wait until the load is over.
//
// # Cleaning up
//
// A network leaves nothing behind, even if the process is killed. Namespaces have no names: they live by this process's
// descriptors and by the processes inside. TAPs and cables vanish with them. An abstract socket claims the addresses
// and interface names that the network needs for itself on this machine, and the kernel frees the socket.
//
// For the same reason nsenter enters a host, not ip netns exec. The latter wants a name and gives each process a copy
// of all mounts: a file system that is mounted for one node could then not be unmounted while another node lives.
//
// A network needs root, /dev/net/tun and nsenter (of util-linux); Supported reports a missing one. Package faults
// decides which parts to break and when, and stand decides which process runs on which host.
package netlab
