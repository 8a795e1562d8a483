// Package relay carries the rows of an outbox table to a cluster. A program inserts rows in the transactions that
// change its own data, so that a task is scheduled or cancelled if, and only if, the transaction commits.
//
//	Relay      takes batches of rows, sends them, and records the answers
//	Database   a PostgreSQL, MySQL or MariaDB with the table
//	DDL        the statements that make the table
//
// # A batch
//
//  1. A transaction locks waiting rows with SKIP LOCKED, so that several relays share the work. A row is left out
//     while an older row of the same task waits, locked or not.
//  2. In the same transaction the rows go to the cluster as one batch. The idempotency key of a line is the name of
//     the table with the id and the time of the row.
//  3. The transaction records the answers and commits. A row that the cluster refuses for good becomes refused, with
//     the problem. A row without a final answer waits for five seconds, and others go on.
//
// A relay that dies before the commit leaves the rows waiting. The next relay sends them again with the same keys,
// and the cluster gives its first answers and changes nothing.
//
// # Order
//
// A batch has one row of a task at most, and the next row of that task is taken only when the first one is done and
// committed. PostgreSQL decides this in the statement that locks the rows. In MySQL a locking statement sees newer
// rows than its subqueries do. So a second statement looks at the oldest waiting row of each task once more, while
// the rows are locked, and only those are sent.
//
// Ids rise in the order in which rows are inserted. A transaction that begins after another one has committed has
// higher ids. Two transactions at the same time have no order, unless they lock a row of their own data before they
// insert: then it is the order of the lock.
//
// # Limits
//
//   - The cluster remembers keys as long as the task or its tombstone lives, which is keep_done of the queue, 10
//     minutes by default. If a relay dies between steps 2 and 3, and no relay works until a task of that batch was
//     delivered and forgotten, the task is scheduled again.
//   - The cluster remembers the keys of the last two calls about a task. A request that the network holds back for
//     longer than the relay waits, while two later rows of its task are relayed, takes effect late.
//   - The database ends the transaction of a relay that says nothing for a minute. Otherwise the locks of a relay
//     whose machine lost its power would stay for as long as TCP keeps a silent connection.
//
// # Why not
//
//   - River, watermill-sql and other queues in a table: they run the handlers of one program. Here the rows go to
//     another service, with an order for each task and keys, and the table is the whole interface for programs in any
//     language.
//   - Debezium or another reader of the database's log: it is a service to run beside Kafka, and the order of a task
//     and the rows that are refused would need a program behind it still.
//   - Locks by a column with the name of the owner and a deadline: each row would be written twice, and a relay that
//     was slow would have to prove that it still owns its rows.
//   - A relay inside each node: a cluster would need the passwords of databases.
//
// The drivers are pgx, which also listens for notifications, and go-sql-driver/mysql, both under database/sql, so
// that one text of each statement serves both. lib/pq is no longer developed by its authors. An ORM or sqlx would add
// more than seven statements need.
package relay
