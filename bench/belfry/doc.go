// Package belfry makes Belfry a subject of the bench: a cluster of three processes on loopback, started as `belfry
// local` starts one, with nothing but the defaults that a user gets. So an acknowledgement means that two of three
// processes have the task on their disk.
//
// There are two ways to call it. Through the Go client, one client is shared by all callers, as in a program. By
// single calls, each caller has an HTTP connection of its own to one of the nodes and PUTs or DELETEs one task after
// the other, again if no leader took it or its outcome is unknown: what any language has without a client. Those
// callers can do nothing else, because all else would be the client again.
package belfry
