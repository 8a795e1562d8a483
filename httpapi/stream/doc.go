// Package stream moves lines both ways on one connection at once: the lines of a client come in, and answers go out,
// while work is under way.
//
//	client ──▶ Lines ──▶ Intake ──▶ the user's work ──▶ Outbox ──▶ Answer ──▶ client
//
// The parts:
//   - Conn is the connection. Its user's steps run beside each other; the first error, or the client's leaving, ends
//     all of them. Only steps touch the connection, so that nothing does after the handler.
//   - Intake holds lines while a commit is under way; all that have come are the next commit.
//   - Outbox holds answers for a client that reads late, up to a bound, and knows the leased tasks in them, so that
//     tasks that were never written go back to their queue.
//   - A line over the limit ends the reading, since it may never end.
//
// Its users are the batch and the consumer's stream of package httpapi, which read the lines and word the answers. They
// lend it memory by the interface Memory.
package stream
