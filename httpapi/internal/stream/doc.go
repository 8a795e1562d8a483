// Package stream moves lines both ways on one connection at once: a client's lines come in and answers go out at the
// same time.
//
//	client ──▶ Lines ──▶ Intake ──▶ the user's work ──▶ Outbox ──▶ Answer ──▶ client
//
// The parts:
//   - Conn is the connection. Its user's steps run in parallel; the first error, or the client's leaving, ends all of
//     them. Only steps touch the connection, so that it is not used after the handler.
//   - Intake holds lines during a commit; all of them form the next commit.
//   - Outbox holds answers for a client that reads late, up to a bound. It knows the leased tasks in them, so that
//     unwritten tasks go back to their queue.
//   - A line over the limit is reported once, and its rest is read and dropped. One of more than 16 times the limit
//     ends the reading, since it may never end.
//
// Its users are the batch and the consumer's stream of package httpapi, which read the lines and word the answers. They
// lend it memory by the interface Memory, and are called back by the interface User.
package stream
