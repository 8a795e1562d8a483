// Package slab is memory for millions of tasks that the garbage collector need not look at.
//
// A task held as ordinary Go objects costs the collector a visit per pointer: seconds of work with ten million tasks.
// Here nothing but a few thousand chunk headers holds a pointer. There are four containers:
//
//   - [Pages] holds fixed-size records under 32-bit handles;
//   - [Arena] holds immutable byte blobs of any length under a 32-bit [Ref];
//   - [Index] finds handles by hash, one small table for each slot number;
//   - [Counter] counts by 32-bit keys.
//
// They hold no clock, no goroutine and no lock, and know nothing of tasks. Each has one owner at a time: methods that
// change it must not run beside any other, methods that only read may run beside each other (the caller's RWMutex sees
// to both).
//
// # Snapshots
//
// [Pages.Freeze] and [Arena.Freeze] take a view of the moment that another goroutine reads without any lock of the
// caller's, while the owner goes on. Pages keeps the old copy of a page at the first write to it (a before-image);
// blobs never change, so Arena merely keeps freed ones until the view is released. Either costs microseconds, where
// encoding under the lock costs tens of milliseconds a million tasks. The price is memory while the view is held: at
// worst a second copy of the records, and whatever blobs are freed meanwhile.
//
// # Why not the other way
//
//   - Memory outside the Go heap would escape GOMEMLIMIT and the collector's pacing, and needs unsafe. Pointer-free
//     chunks on the heap are skipped by the collector just as well.
//   - One growing slice would be simpler than chunks, but growing it copies everything, with the caller waiting.
//   - A Go map for the index costs two to five times the memory, and rehashes in long steps.
//   - Copy on write of whole chunks in place of pages would copy 256 KiB for a change of 64 bytes.
//
// Handles and Refs are addresses. They differ between replicas that hold the same tasks, as does the order in which
// Index yields them; none may reach a log, a snapshot or a caller.
package slab
