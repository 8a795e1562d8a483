// Package progress shows the progress of long work beside its result, on the standard error.
//
//	terminal       one line with a bar, the count, the rate and the remaining time; it is gone at the end
//	no terminal    a plain line every ten seconds at most; short work has none
//
// The rate and the remaining time are of the progress since the first state that was shown, since the work may have
// begun long before. Package progressbar draws the bar.
package progress
