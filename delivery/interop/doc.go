// Package interop tests package delivery's requests with other parties' libraries:
//
//	receiver.mjs   a receiver in JavaScript, which verifies each request with standardwebhooks and reads it with
//	               the CloudEvents SDK
//	the tests      deliver to that receiver over loopback; they need Node.js
//
// Running and versions:
//
//   - The tests are skipped unless `make test-interop` runs them, which also installs the packages.
//   - The versions are pinned in package.json, and with checksums in package-lock.json. The files name no registry, so
//     that npm uses its configured one.
//
// Two facts may interest an author of a receiver; the receiver here shows both. The CloudEvents SDK leaves the
// percent-encoding of header values as it is. standardwebhooks treats every body as text, so that a receiver must
// verify a body of other bytes itself. Neither matters in a batch.
package interop
