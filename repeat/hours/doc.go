// Package hours tells at which times of the week something is open: daily ranges of wall-clock time on some days.
//
//	Parse        checks the ranges and the days
//	Week.Open    reports whether an instant is within the hours
//	Week.Next    the first instant within the hours
//
// # Rules
//
//   - A Week has no time zone. It goes by the wall clock that an instant shows in its own location.
//   - A range may cross midnight: it belongs to the day on which it begins. Ranges that overlap unite.
//   - A time that a clock change skips does not exist: hours that begin in the gap begin at its end. A time that comes
//     twice is open both times.
//
// # Why not
//
//   - Cron expressions: "09:30-17:15" takes three of them, and a range over midnight more.
package hours
