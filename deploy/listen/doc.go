// Package listen is the receiver behind `belfry listen`: it prints each arrival with its headers and its lateness, says
// whether its signature is good, and fails, dawdles, hangs or resets if it is told to, so that retries and timeouts can
// be seen at a terminal. Of a batch it prints each event, and answers with a result for each.
package listen
