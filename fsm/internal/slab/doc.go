// Package slab is memory for millions of tasks that the garbage collector need not scan.
//
//   - [Pages] holds fixed-size records under 32-bit handles;
//   - [Arena] holds immutable byte blobs of any length under a 32-bit [Ref];
//   - [Index] finds handles by hash, one small table for each slot number;
//   - [Counter] counts by 32-bit keys.
//
// A task held as ordinary Go objects costs the collector a visit per pointer: seconds of work with ten million tasks.
// Here only a few thousand chunk headers hold pointers.
//
// The containers have no clock, no goroutine and no lock, and know nothing of tasks. Each has one owner at a time. A
// method that changes a container must not run beside any other; methods that only read may run beside each other. The
// caller's RWMutex sees to both.
//
// # Snapshots
//
// [Pages.Freeze] and [Arena.Freeze] take a view of the present moment. Another goroutine reads the view without any
// lock of the caller's, while the owner goes on.
//
//   - Pages keeps the old copy of a page at the first write to it (a before-image).
//   - Blobs never change, so Arena merely keeps freed ones until the view is released.
//   - Either costs microseconds, where encoding under the lock costs tens of milliseconds a million tasks.
//   - The price is memory while the view is held: at worst a second copy of the records, and the blobs that are freed
//     meanwhile.
//
// # Why not the other way
//
//   - Memory outside the Go heap would escape GOMEMLIMIT and the collector's pacing, and needs unsafe. Pointer-free
//     chunks on the heap are skipped by the collector just as well.
//   - One growing slice would be simpler than chunks, but growing it copies everything, with the caller waiting.
//   - A Go map for the index costs two to five times the memory, and rehashes in long steps.
//   - Copy on write of whole chunks in place of pages would copy 256 KiB for a change of 64 bytes.
//
// # Addresses
//
// Handles and Refs are addresses. They differ between replicas that hold the same tasks, and so does the order in
// which Index yields them. None of them may reach a log, a snapshot or a caller.
package slab
