// Package postgres measures PostgreSQL with a table of tasks, which is what many have already: an index by due
// instant, a commit that is on the disk before it is acknowledged, and consumers that look every ten milliseconds and
// take what is due with FOR UPDATE SKIP LOCKED. They delete it in a transaction that commits once it is received, so
// what a consumer that dies had received is due for the next one.
//
// Callers share a pool of connections with prepared statements. A batch is one statement with arrays.
//
// The server runs with its defaults, but for a cache and a log between checkpoints of a size for a machine of today.
// It does not run as root; if the bench does, the server runs as the user postgres of Debian's package.
package postgres
