// Package repeating reads the rules of requests into messages, and the rules of messages into rules that tell instants.
//
//	Member   a rule in JSON → fsmpb.Repeat, from nothing or as a merge patch
//	Rule     fsmpb.Repeat → repeat.Rule
//
// Previews and schedules read their rules here, so that both take the same members with the same limits.
package repeating
