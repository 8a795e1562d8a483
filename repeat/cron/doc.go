// Package cron reads cron expressions and finds the instants at which they fire. It is pure: it reads no clock, and
// takes its time zones from the caller.
//
//	Parse       five fields, six with the second in front, or a macro like @daily; an *Error names field, text and limit
//	Expr.Next   the first firing after an instant, with the effect of a clock change
//
// # Days
//
// As in crontab (Vixie), a day matches if either field of days does when neither begins with * or ?. Else both must
// match. So "0 0 13 * FRI" fires on each 13th and each Friday, and "0 0 */2 * MON" on Mondays with an odd date. Cronos
// takes both in all cases, and Quartz takes only one field; most callers come from crontab. L, W and # are those of
// Quartz. A month without the wanted day is passed over.
//
// # Clock changes
//
//	              a point in time                an interval: a *, a range or a step in second, minute or hour
//	gap           fires once, at the gap's end   fires once for all that the gap skips, at its end
//	repeated hour fires in the first pass        fires in both passes
//
// These are the rules of Cronos (github.com/HangfireIO/Cronos).
//
// # How it works
//
// A zone is a sequence of periods with one offset each. Within a period the wall clock runs evenly, so Next looks for
// the first matching wall-clock second by bit masks, and compares the result with the end of the period: before it lies
// a firing, after it a gap or the next period. The calendar repeats after 400 years, so Parse can refuse a rule that
// never fires. time.Time.ZoneBounds (Go 1.26) is no exact end of a period: after the last listed change of a zone it
// splits periods at the ends of years, and on the last day of a leap year it reports an end in the past.
//
// TestAgreesWithOracle compares ten years of 42 rules in 45 zones with an implementation that looks at each minute
// (make long RUN=TestAgreesWithOracle).
//
// # Why not
//
//   - github.com/robfig/cron/v3 (3.0.1) skips a point in time that a gap swallows, fires it twice in a repeated hour,
//     refuses 7 for Sunday, L, W and #, and finds no 29 February after March 2096: it looks five years ahead.
//   - github.com/netresearch/go-cron (0.9.1), its continuation with L, W and #, moves a point in time in a gap by an
//     hour, fires it twice in a repeated hour, takes both fields of days, and looks five years ahead.
//   - github.com/adhocore/gronx (1.20.4) skips what a gap swallows, and refuses LW and FRI-MON.
package cron
