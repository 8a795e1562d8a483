// Package vitals watches what the nodes of a cluster take from their machine (memory, descriptors, goroutines, threads,
// disk, processor time), draws it, and judges whether it stays flat.
//
// Flat means: after a warm-up, the trend over the rest of the run grows by no more than the quantity's bound. The trend
// is the median of the slopes between all pairs of points (Theil, 1950; Sen, 1968): a garbage collector's or a
// snapshot's sawtooth hardly moves it, and neither do a few wild points, but a leak of any shape does. Falling is flat.
//
// The kernel is asked for memory, descriptors, threads and processor time, the node for its goroutines and its heap. A
// node that does not run or does not answer leaves a gap.
//
// It leaves to others: load, and how long it goes on (siege). Elsewhere than on Linux it sees only what nodes tell.
package vitals
