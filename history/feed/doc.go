// Package feed is the vocabulary of events over all shards: where a reader is, and what it gets.
//
//	Cursor   a position in each shard
//	Filter   the events that a reader wants
//	Page     events of all shards, each with the Cursor after it
//	Story    the events of one task
//
// Events of one shard come in the order of its log. Between shards, a page orders them by their instants, which are
// those of different leaders' clocks. A reader that goes on after any Cursor of a page misses no event and gets none
// twice.
package feed
