// Package repeat tells when a rule fires: at cron expressions in a time zone, or at an interval from an anchor. It is
// pure: it reads no clock and no file, and the same rule gives the same instants on every machine.
//
//	Spec             a rule as a caller gives it
//	New              checks a Spec; a *FieldError names the field
//	Rule.Next        the first occurrence after an instant
//	Rule.Span        the number of occurrences between two instants
//	Rule.Search      the same with one bound on the effort of many calls
//	calendar         the holidays and hours that a rule may go by; hours of the week in package hours
//	cron             the expressions, and the effects of clock changes on them
//	zone             the time zones, with the version of their data
//
// # Rules
//
//   - Several cron expressions are united. An instant that two of them name is one occurrence.
//   - An interval counts from its anchor in elapsed time, forwards and backwards: clock changes do not move it.
//   - Exclusions take instants away: a date, a range of dates, an instant, or a cron expression, of which five fields
//     name whole minutes. Dates are those of the rule's zone.
//   - A calendar takes away the instants at which it is closed. The rule asks it through Opening, and does not know its
//     form. While the calendar is closed for good, the rule has no occurrence.
//   - Start and end belong to the rule: an occurrence may be at either.
//
// # Why not
//
//   - RRULE of RFC 5545: it has no answer for a skipped hour, and callers know cron.
//   - An interval in wall-clock time: "every 6h" would last five or seven hours twice a year.
package repeat
