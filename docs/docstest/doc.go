// Package docstest runs the fenced blocks of README.md and of the pages in docs/ but for runbooks, compares those
// of the Chinese pages (README.zh.md, docs/zh/*.md) with the English ones, and checks the links of all pages. It holds
// only tests.
//
// # Kinds of blocks
//
// The info string behind a block's opening fence names the block's kind. Readers see it only in the block's colours.
//
//	sh                     commands. They run in the order of the page.
//	sh background=NAME     commands that keep running until the page ends
//	sh with=NAME           commands that need the block NAME, which stands further down and starts before them
//	sh untested: REASON    commands that no test can run. The test checks that they exist and take these flags.
//	console                commands behind "$ ", each followed by all of its output
//	go, java, python, ts   a whole program, which may use Belfry's client. It runs as sh does. Programs that stand
//	                       together are the tabs of one example on the site, with an sh before them as curl.
//	ts background=NAME     a program that keeps running until the page ends
//	json                   the last answers of the sh block before it
//	output                 adjacent lines in the output of the sh block before it, or of each of the programs that
//	                       stand together before it
//	output of=NAME         adjacent lines in the output of a background block. The test waits until they are printed.
//	output shape           as output, but figures may differ
//	yaml                   a file of serve --http-client-roles, --oidc-roles or --brokers. The test loads it.
//	sql                    statements of a database. make test-relay runs them (relay/guide_server_test.go)
//	text                   a drawing, which is not checked
//
// A block of any other kind fails the test. So does an answer of 400 and above that no json block shows.
//
// # Comparison
//
// Instants, durations, generated ids, receipts and the numbers of commands differ from run to run. mask replaces them
// on both sides before the comparison. All other text must be equal, except for the white space.
//
// An export of a variable holds for the rest of the page.
//
// A name in angle brackets within a command, such as <receipt>, stands for the last value of that field in an answer.
//
// # Where it runs
//
//	go test ./...           TestBlocksSayWhatTheyAre, TestTranslationsHaveTheSameBlocks, TestLinks, TestProgramsCompile,
//	                        TestNamedTestsExist, TestFirstLevelIsShort; they need nothing else
//	make test-docs          TestPages
//	make test-typescript    TestTypeScript
//
// TestPages uses the ports that the pages name. `make test-docs` runs it in a network namespace if the system allows
// it. Each page gets a fresh copy of the repository as its working folder, with the `belfry` of that copy in its PATH,
// where `go install` puts programs.
//
// TestTypeScript compiles the bodies and answers of the pages' calls with the types that openapi-typescript generates
// from httpapi/openapi.yaml. package.json pins the generator and the compiler; package-lock.json adds checksums and
// names no registry.
package docstest
