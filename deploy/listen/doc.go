// Package listen is the receiver behind `belfry listen`: it prints each arrival with its headers and its lateness, and
// fails or dawdles if it is told to, so that retries and timeouts can be seen at a terminal.
package listen
