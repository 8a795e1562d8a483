// Package zone finds time zones of the IANA database in an embedded copy, and tells the version of that copy. All nodes
// with the same build give the same answer: the package never reads the zone files of the machine.
//
//	Load      returns the zone of a name like "Europe/Berlin"
//	Version   is the release of the embedded database, like "2025c"
//
// # The copy
//
// zoneinfo.zip is lib/time/zoneinfo.zip of the Go distribution, made by the Go project from the IANA release with
// PACKRATDATA=backzone. version.txt has the release and the SHA-256 of the archive, and a test holds the two together.
// `make tzdata` copies both from the installed Go.
//
// # Why not
//
//   - time.LoadLocation: it prefers $ZONEINFO and /usr/share/zoneinfo, so that two nodes of one build could differ.
//   - time/tzdata: neither the package nor the runtime tells the version, and a build with another toolchain would
//     change the data unseen.
package zone
