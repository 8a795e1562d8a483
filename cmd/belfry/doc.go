// Belfry is a clustered, sharded, replicated timer service: it takes tasks over HTTP and delivers them on time, even
// when machines fail.
//
//	serve, local, demo, dev, listen    run a node, a cluster on this machine, a demonstration, a test node, a receiver
//	task, schedule, queue, lease,      call a cluster; each noun has its verbs, such as `belfry task schedule`
//	dead, cluster, node, key,
//	namespace
//	top, bench                         show a cluster live, measure it
//	import                             bring the tasks of other schedulers into a cluster
//	context                            keep addresses and keys of clusters under names
//	advance                            set the clock of a node for tests ahead
//	audit                              show the changes of operators and the calls that were refused
//	doctor                             find the faults of a cluster, and name the next steps
//	plan, certs, verify                size a cluster, make its certificates, check the folder of a stopped node
//	completion                         complete commands and names in a shell
//	restore, recover                   make a new cluster of a backup, or of the disks that are left
//
// The command only parses arguments, calls and prints. Package node runs a node, and the packages under deploy run the
// other commands of the first line. Package client calls a cluster.
//
// # Settings
//
// Durations and labels are written as in the HTTP interface: 1.5d, 48h or PT30M; name=value or name:value. Instants are
// RFC 3339, or texts like "tomorrow 9:00": see package instant.
//
//	flag                   environment variable      key of the YAML file that --config names
//	local --http-port      BELFRY_LOCAL_HTTP_PORT    http-port: 8400
//	serve --join           BELFRY_SERVE_JOIN=a,b     join: [a, b]
//	task get --addr        BELFRY_ADDR               addr: http://node-1:8400
//	task get --timeout     none                      timeout: 5s
//
// A variable is BELFRY_<COMMAND>_<FLAG>: it belongs to one command. Commands that call a cluster take only their
// connection from the environment: BELFRY_ADDR, BELFRY_NAMESPACE, BELFRY_KEY_FILE, BELFRY_CA, BELFRY_CLIENT_CERT and
// BELFRY_CLIENT_KEY; and from a context, which BELFRY_CONTEXT names. The nearest value wins: flag, environment, file,
// context, default. A key that the command does not know is an error that names it.
//
// The current context is for calls that name no address, so that its key goes to no other cluster.
//
// No flag takes a secret, since all users of a machine see the flags. An API key stands in the file of --key-file, in
// BELFRY_KEY if no file is named, or in a context.
//
// # Output
//
// Client commands, plan, verify and certs show print a table, or with -o json one JSON value a line: one line for a
// single result, a line each for several. Package output has the forms. Results go to the standard output; questions,
// progress and notes go to the standard error.
//
// A command whose change cannot be undone counts its effect and asks for the name of the thing. Without a
// terminal it needs --yes.
//
// # Exit codes
//
//	0  done; `task schedule --if-absent`, `schedule put --if-absent`: it is there, by this call or by an earlier one
//	1  failed; `task batch`: a line was refused; `import`: a record has no equal task; `demo`, `bench`: a task was lost,
//	   came early, or the run could not be finished
//	2  wrong arguments, settings or configuration file
//	3  the client commands: there is no such task or schedule
//	4  the client commands: the call may or may not have happened
//	5  doctor: there are warnings, and nothing worse
//	6  doctor: there are critical findings
//
// A node whose disk fails ends at once, with 1: its memory may differ from its disk.
package main
