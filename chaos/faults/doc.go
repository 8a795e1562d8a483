// Package faults breaks a cluster of real processes and mends it, and watches who leads what meanwhile.
//
// A kind of fault is a row of a table: a name, a group by which it is selected, a weight, what it needs of the stand,
// and a function that strikes, holds for a while, mends, and records all of it. Several may strike at once: each claims
// the nodes whose processes or disks it touches, and passes if another has them. A fault is mended when its node's
// process runs again, or its network or disk is whole. It waits for no readiness, for another fault may hold that up;
// how long the cluster took to be of use again is judged afterwards, by the writes that its shards took.
//
// Who leads is asked of the nodes themselves, over their public interface.
//
// It leaves to others: load, so that there is something to break (workload), and whether the cluster stood it (check).
package faults
