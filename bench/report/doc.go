// Package report makes tables and pictures of what was measured: medians over the rounds, how far they spread, how they
// compare to Belfry's, and whether the goals are met.
//
// The raw figures of every round are written too, with the machine and the sizes, so that anyone can draw other
// conclusions; the tables are made from that file alone. It measures nothing.
package report
