// Package places bounds the calls that last: batches, streams, leases that wait.
//
//	holder                    holds at most
//	a caller with credentials as many places as it leaves free: half of all, if it is alone
//	an address without them   three quarters
//	a namespace               three quarters, all of its callers together
//
// So no caller, and no namespace, locks the others out of a node:
//
//   - With n callers that take all they can get, each ends at one part of n+1, and one more part is free for the next.
//   - Callers that came first hold more until they give places back. No call under way is cut off.
//   - A caller without credentials is its address, or its network of 64 bits with IPv6, since one machine owns all of
//     it. Behind a proxy, one address may be many callers, so the address of a caller with credentials does not count.
//   - The bound of a namespace holds for callers with credentials. It keeps a namespace with many keys from taking
//     every place.
//
// # Why not
//
//   - Not an equal part for each caller that has a place: a lone caller would get all of them, and the second one none.
//   - Not a queue of waiting calls: a call that waits for a place is a place.
package places
