// Package postgres measures PostgreSQL with a table of tasks, which many users run already.
//
//	OneServer      one server
//	WithStandbys   a primary and two streaming standbys: one of them has synced a commit before it is acknowledged
//
// The callers use the primary:
//
//	table       tasks, with an index by due instant
//	schedule    one insert; the commit is on disk before it is acknowledged
//	batch       one statement with arrays
//	consume     every 10 ms, consumers take due tasks with FOR UPDATE SKIP LOCKED
//
// How the driver uses the service:
//   - A consumer deletes the tasks in a transaction and commits after it has received them. If a consumer dies before
//     the commit, its tasks are due for the next one.
//   - Callers share a pool of connections with prepared statements.
//   - A server runs with its defaults, except that the cache and the log between checkpoints have sizes for a current
//     machine.
//   - A standby is a copy by pg_basebackup, with a replication slot. The setting is
//     synchronous_standby_names = 'ANY 1 (…)', and synchronous_commit has its default. The server does not replace a
//     primary that died, so the workloads that kill a leader leave it out.
//   - The server refuses to run as root. If the bench runs as root, the server runs as the user postgres of Debian's
//     package.
package postgres
