// Package vitals watches the resources that the nodes of a cluster take from their machine, and judges whether they
// stay flat.
//
//	quantity                                                source
//	memory, descriptors, threads, processor time            the kernel (Linux only)
//	goroutines, heap                                        the node's metrics
//	disk                                                    the files in the node's data folder
//
// How a series is judged:
//
//   - Flat means: the trend over the rest of the run, after a warm-up, grows by no more than the quantity's bound.
//     Falling is flat.
//   - The trend is the median of the slopes between all pairs of points (Theil, 1950; Sen, 1968). The sawtooth of a
//     garbage collector or of snapshots hardly moves it, and neither do a few wild points, but a leak of any shape
//     does.
//   - A node that does not run or does not answer leaves a gap.
//
// The package leaves the load and the length of the watch to siege.
package vitals
