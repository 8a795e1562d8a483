// Package e2e tests delivery from end to end, on a cluster of whole nodes: a due task reaches its receiver or consumer,
// and a receiver that is slow, broken or hostile harms only itself. The package holds only tests:
//
//	stage     the nodes: in memory and simulated time, or processes
//	hostile   receivers that do every harm that a receiver can do, and can be healed
//	sink      a receiver that records arrivals and how many run at once
//	crowd     consumers that come and go, die with leases in hand, and are cut off in mid-answer
//	account   compares the scheduled tasks with the arrivals: all of them, once, none early, how late
//	leases    compares the leases and their settles with the rules of leases
//	vitals    the processes' memory and descriptors, read from the system during a scenario
//
// The tests judge the behaviour that callers and receivers see, and use only the nodes' public interface. The accounts
// are pure functions of the records, and are tested with histories made by hand, good and bad. The hostile receivers
// are tested to be hostile.
//
// TestDelivery plays each scenario on three nodes of its own in simulated time, in which a punctual task is not late at
// all. TestDeliveryByProcesses plays them on processes, in real time:
//
//	BELFRY_TESTS=timed go test ./delivery/e2e                       on an otherwise idle machine: within a second
//	BELFRY_TESTS=timed,long go test -timeout 40m ./delivery/e2e     large numbers, held to the promised times
//
// Why not scenarios of package chaos: chaos breaks nodes under one kind of load with receivers that behave, and judges
// one history in the end. Here the receivers and consumers are broken, each scenario needs its own, and most need no
// fault among the nodes at all.
package e2e
