// Package faults breaks a cluster of real processes and mends it, and watches who leads what meanwhile.
//
// A fault is recorded before the first signal is sent and after the last node is ready again, so that everything it
// may have caused lies inside. Who leads is asked of the nodes themselves, over their public interface.
//
// It leaves to others: load, so that there is something to break (workload), and whether the cluster stood it (check).
package faults
