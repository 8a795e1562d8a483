// Package delivery shows, on a cluster of real processes, that a due task reaches whoever is to have it, and that a
// receiver that is slow, broken or hostile harms only itself.
//
// It is a package of tests. Its parts:
//
//	hostile   receivers that do every harm that a receiver can do, and can be healed
//	sink      a receiver that records what arrives, and how much of it runs at once
//	crowd     consumers that come and go, die with leases in hand, and are cut off in mid-answer
//	account   what was asked against what arrived: all of it, once, none early, how late
//	leases    what was leased and settled, held against the rules of leases
//	vitals    the nodes' memory and descriptors, read from the system while all this goes on
//
// What is judged is what callers and receivers see; nodes are asked nothing that the public interface does not say.
// The accounts are pure functions of what was recorded, and are tested with histories made by hand, good and bad; the
// hostile receivers are tested to be hostile.
//
// It stands beside chaos and not inside its scenarios, because the question is another one. Chaos breaks nodes under
// one kind of load with receivers that behave, and judges one history in the end. Here the receivers and consumers are
// what is broken, each scenario needs its own, and most need no fault among the nodes at all.
//
// `go test ./chaos/delivery` runs a short form of everything on one cluster, and judges no times, for it runs beside
// other tests. With BELFRY_CHAOS=alone it is held to a second. BELFRY_CHAOS=long with -timeout 40m runs the long form,
// which wants a quiet machine: it is held to the promised times.
package delivery
