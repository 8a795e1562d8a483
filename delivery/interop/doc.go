// Package interop holds what package delivery sends against libraries that others wrote: a receiver in JavaScript
// verifies each request with standardwebhooks and reads it with the CloudEvents SDK. Its tests deliver to that receiver
// over loopback; they need Node.js, and are skipped unless `make test-interop` runs them, which gets what they need.
//
// The versions are pinned in package.json, and with checksums in package-lock.json; no registry is named in it, so that
// whatever registry npm is set up with is asked.
//
// Two things that an author of a receiver may like to know, and that the one here shows: the CloudEvents SDK leaves the
// percent-encoding of header values as it is, and standardwebhooks takes every body for text, so that a body of other
// bytes has to be verified by hand. In a batch neither matters.
package interop
