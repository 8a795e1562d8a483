// Package docstest runs the fenced blocks of README.md and docs/*.md, and checks the links of all pages. It holds only
// tests.
//
// # Kinds of blocks
//
// The info string behind a block's opening fence names the block's kind. Readers see it only in the block's colours.
//
//	sh                     commands. They are run, in the order of the page.
//	sh background=NAME     the same, left running until the page ends.
//	sh untested: REASON    commands that no test can run. That they exist and take these flags is checked.
//	console                commands behind "$ ", each followed by all of its output
//	go                     a whole program. It is run as sh is.
//	json                   the last answers of the sh block before it
//	output                 lines that stand together in the output of the sh or go block before it
//	output of=NAME         the same of a background block. The test waits until they are printed.
//	output shape           the same, and figures may differ
//	text                   a drawing: nothing to check
//
// A block of any other kind fails the test, and so does an answer of 400 and above that no json block shows.
//
// # Comparison
//
// Instants, durations, ids that the service makes, receipts and the numbers of commands differ from run to run: mask
// replaces them on both sides before they are compared. All else must be equal, but for the white space.
//
// A name in angle brackets within a command, such as <receipt>, stands for the last value of that field in an answer.
//
// # Where it runs
//
// TestBlocksSayWhatTheyAre, TestLinks and TestProgramsCompile need nothing and are part of `go test ./...`. TestPages
// takes the ports that the pages name; `make test-docs` runs it, in a network of its own if the system can make one.
// Each page has a fresh copy of the repository as its working folder, and the `belfry` of that copy in its PATH.
//
// TestTypeScript compiles the bodies and answers of the pages' calls with the types that openapi-typescript generates
// from httpapi/openapi.yaml; `make test-typescript` runs it. Generator and compiler are pinned in package.json, and
// with checksums in package-lock.json, which names no registry.
package docstest
