// Package subject says what a workload asks of a service under test. Every service that is compared is a [Subject];
// started, it is a [Service]; each of the concurrent callers of a workload has a [Caller] of it.
//
// The demands are small, so that a driver is a page of code in the words of the peer's own client library. What only
// some services can do is an interface of its own, which a workload asks for by type assertion; the table then says
// "cannot" for the others.
//
// It leaves to others: what is measured (workload), what is made of the figures (report).
package subject
