// Package local runs a whole cluster on one machine: N nodes as child processes on loopback, their data, logs and pid
// files in one folder. It is what stands behind `belfry local`, `belfry demo` and the fault tests.
//
// Real processes, not nodes inside one process, because what is to be shown and tested is that a process may die: a
// kill -9 frees nothing, flushes nothing and says goodbye to nobody, and the kernel closes its sockets. Each child is
// told nothing but the flags of `belfry serve`, so a local cluster is the same thing as one on three machines.
//
// The folder is the cluster: started again on it, with ports picked the first time and written down, it goes on.
// A child that dies is reported and left dead unless Config.Restart says otherwise. Children die with their parent
// (on Linux even with one that was killed), so no run leaves nodes behind.
//
// It leaves to others: waiting for shards to have leaders (a node says it is ready when it knows the map), judging
// anything, and every other way of running nodes.
package local
