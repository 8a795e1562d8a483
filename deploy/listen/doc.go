// Package listen is the receiver behind `belfry listen`.
//   - It prints each arrival with its headers, its lateness and the result of checking its signature.
//   - It can be set to fail, to answer late, to hang or to reset the connection, so that a user sees retries and
//     timeouts at a terminal.
//   - For a batch it prints each event and answers with a result for each.
package listen
