// Package workload has the workloads by which services are compared: each is a function of a subject and of sizes,
// starts the service fresh, and gives figures.
//
// Two kinds of clocks. What asks "how many a second" is a closed loop: so many callers, each of which calls again as
// soon as it was answered. What asks "how late" is an open loop: instants are laid down before, and every lateness and
// latency counts from the instant that was meant, whatever else was going on. So a service or a load that stalls cannot
// hide what had to wait meanwhile.
//
// The load runs in this process, on the machine of the service. What it uses of the processors is measured with every
// workload, because a load that needs as much as the service is part of what is measured.
//
// Everything here runs inside a synctest bubble, where the tests get exact figures. It leaves to others: how a service
// is run and spoken to (subject), rounds and medians (cmd/bench, report).
package workload
