// Package storm puts the load of one namespace on a cluster, beside which the bench measures another namespace.
//
//	Start   runs a storm in a child process, at the lowest priority of the machine (nice 19)
//	Serve   is the child's side
//
// The child reads its Config as one line of JSON from its standard input, which so carries the key unseen. It writes
// one line when the storm has begun, ends with the input, and then writes how many tasks were acknowledged.
//
//   - The storm has a process of its own, so that its processor time is not the neighbour's, nor the service's. On a
//     machine that also runs the nodes, its priority leaves the processors to them.
//   - Bodies are made once, and each connection sends its own again and again. So the load costs a small part of what
//     its lines cost the nodes, and the tasks of a storm stay as many as there are ids.
package storm
