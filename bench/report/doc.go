// Package report makes tables and pictures of measured figures.
//
//	RESULTS.md      tables: medians over the rounds, spread, ratio to Belfry, goals
//	*.svg           one picture for some of the tables
//	results.json    the raw figures of every round, the machine and the sizes
//
// The tables and pictures are made from results.json alone, so that a reader can recompute them. The package measures
// nothing.
package report
