// Command conform runs the conformance cases of clients/conformance against clients of Belfry, and prints a table of
// cases and clients.
//
//	go run ./clients/conformance/cmd/conform --client go=bin/godriver --client typescript='node …'
//
// The command starts a cluster of three nodes, and a driver for each client as a child process. The driver has no
// knowledge of the cases: it gets one call a line, and answers with the result or the error. The command compares both
// with the case, and plays every other part:
//
//	suite.go     reads the cases, and runs them on the drivers
//	value.go     fills in variables, and compares answers
//	driver.go    starts a driver, and calls it
//	stage.go     runs the cluster and the proxies before its nodes, and kills the leader of a task
//	peer.go      answers as a scripted node, where a real cluster cannot be made to
//	coverage.go  counts the calls of openapi.yaml and the types of problems that the cases reach
//
// The README of clients/conformance has the format of the cases and the protocol of the drivers.
package main
