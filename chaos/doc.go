// Package chaos breaks a cluster of real processes under load, and judges from outside what came of it.
//
// A run has rooms of its own, each a package, joined by the record alone:
//
//	history   what was called, what was answered, what arrived, what was broken, and when
//	workload  calls through random nodes, with timeouts and safe repeats; and the receiver
//	netlab    a network that can be cut, delayed and garbled
//	lossyfs   disks that forget, fail and fill up
//	stand     the cluster on that stage, as far as this machine has one
//	stranger  lies about the members, to nodes whose gossip has no key
//	faults    the kinds of faults; who leads what meanwhile
//	check     the invariants, each a pure function of the history; linear: porcupine, id by id
//	verdict   what came of one round, with all that is known of what was broken
//	siege     rounds of load and faults by a seed; the report
//
// `go run ./chaos/cmd/siege --for 1h --faults all --seed 7` is the long form: faults at random, several at once, round
// after round. Here are the short ones: scenarios, which are sieges of one round with a fixed plan, so that `go test`
// sees each time the same faults in the same order.
//
// Real processes on one machine, not nodes inside the test, because only a process can be killed in the way that a
// machine dies; and judged over the public interface alone, because a harness that looks inside believes what the
// inside believes. Simulated time and simulated networks are the concern of the packages below; they find other
// mistakes, and find them faster, but nobody runs them in production.
//
// The harness is itself checked: every check against histories made by hand, good and bad, and the whole of it against
// a fake service that is sound, or has one bug of each kind.
//
// The tests of delivery/e2e show what receivers and consumers do to each other and to the nodes.
// README.md lists the bugs that were found so far, each with the command that finds it again.
//
// `go test ./chaos` plays each scenario once and briefly. BELFRY_CHAOS=long plays them for minutes with all shards and
// holds them to the promised times; BELFRY_CHAOS_SEED=n makes other choices; BELFRY_CHAOS_KEEP=folder keeps histories,
// node logs and data there.
package chaos
