// Belfry is a clustered, sharded, replicated timer service: tell it what to deliver and when, over HTTP; it delivers
// then, also when machines die meanwhile.
//
// This command wires the packages together, one file a subcommand, and holds no logic of its own: `serve` runs a node,
// `local` a whole cluster on this machine, `demo` shows one failing and losing nothing, `listen` is a receiver to try
// things with, and the rest are calls to a cluster.
//
// # Settings
//
// Durations, instants and labels are written as in the HTTP interface: 1.5d, 48h or PT30M; RFC 3339; name=value or
// name:value.
//
// Every flag is also an environment variable (--http-port is BELFRY_HTTP_PORT; lists are separated by commas) and a
// key of the YAML file that --config names (http-port: 8400). What is nearer wins: flag, environment, file, default.
// A key that the command does not know is an error that names it, so that a misspelt one cannot pass unseen.
//
// # Exit codes
//
//	0  done; `schedule --if-absent`: the task is scheduled, by this call or by an earlier one
//	1  failed; `batch`: a line was refused; `demo`: a task was lost, came early, or the run could not be finished
//	2  wrong arguments, settings or configuration file
//	3  the client commands: there is no such task
//	4  the client commands: the call may or may not have happened
//
// A node whose disk fails ends at once, with 1: what it holds may not be what it wrote.
package main
