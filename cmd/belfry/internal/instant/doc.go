// Package instant reads instants as people write them, and refuses a text that has no meaning or several.
//
//	2026-12-01T09:00:00Z               RFC 3339, with any offset
//	2026-12-01 09:00                   a date and a time of day; also with seconds, or with T between them
//	today 9:00, tomorrow 9:00          a day from now; yesterday for the past
//	monday 9:00                        the next Monday; refused on a Monday before 9:00, which may mean two days
//	9:00                               the next time that the clock shows it
//	in 2h, 2h ago, now                 a duration from now, in the forms of the HTTP interface
//
// A time of day is of the zone that the caller gives, or of one behind it: "9:00 Europe/Berlin". A time that a change
// of the clock skips, or that comes twice, is refused with the instants that it may mean.
//
// # Why not a library?
//
// They guess. On Saturday, 2026-03-28 at 12:00 in Berlin, olebedev/when v1.1.0, tj/go-naturaldate v1.3.0 and
// markusmobius/go-dateparser v1.4.7 read:
//
//	text               when               naturaldate        dateparser
//	tomorrow 2:30      Sunday 3:30        Sunday 3:30        Sunday 3:30        the clock skips 2:30
//	tomorow 9:00       Saturday 9:00      Saturday 9:00      refused            a typing error
//	tomorrow 25:00     Sunday 13:00       Monday 1:00        Sunday 12:00       no time of day
//	9:00               Saturday 9:00      Saturday 9:00      Saturday 9:00      it is over
//	monday 9:00        Monday 30th        Monday 30th        Monday 23rd
//	in 2h              refused            Saturday 2:00      Saturday 14:00
//	2026-12-01 09:00   Saturday 12:01     refused            as written
//	soon               refused            Saturday 12:00     refused
package instant
