// Package subject defines the interfaces of a service under test.
//
//	Subject   a service that can be measured: its name, its durability, how to start it
//	Service   a started subject
//	Caller    one of the concurrent callers of a service
//
// Two rules keep a driver simple:
//   - The interfaces are small, so that a driver is about a page of code on top of the peer's own client library.
//   - An ability of only some services is an interface of its own, such as [Canceller]. A workload lists the abilities
//     for its calls, and the tables say "cannot" for services without them.
//
// Package workload defines the measurements, package report evaluates the figures.
package subject
