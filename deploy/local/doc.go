// Package local runs a whole cluster on one machine, for `belfry local`, `belfry demo` and the fault tests.
//
//	DataDir/
//	    local.json    the addresses of the nodes, chosen at the first start
//	    node-1/       belfry.log, belfry.pid and the data of a node
//	    node-2/       …
//
// The cluster and its nodes:
//   - The nodes are child processes on loopback. Each child gets the flags of `belfry serve`, so a local cluster works
//     as one on several machines does.
//   - A second start on the same folder continues the cluster with the same addresses.
//   - A child that dies is reported. It stays down unless Config.Restart is set.
//   - Children die with their parent, on Linux even if the parent was killed. No run leaves nodes behind.
//
// Why not several nodes inside one process: the demo and the tests show the death of a process. A SIGKILL frees and
// flushes nothing and sends no goodbye, and the kernel closes the sockets.
//
// The package does not wait for shards to have leaders: a node is ready when it knows the map of shards. It judges
// nothing, and runs nodes in no other way.
package local
