// Package calendar tells on which days, and at which hours of them, work may be done: holidays and business hours under
// a name that schedules and send windows share.
//
//	Spec            a calendar as a caller gives it
//	New             checks a Spec; a *FieldError names the field
//	Calendar.Opens  the first instant at or after another at which the calendar is open
//	Import          reads the holidays of an iCalendar file into a Spec
//
// # Rules
//
//   - A closed date is closed from midnight to midnight, also for hours that began the day before.
//   - A calendar without hours is open on every date that is not closed. One without closed dates is open at its hours.
//   - Dates and hours are those of the calendar's time zone. A calendar without one goes by the zone of each instant.
//     So one list of holidays serves all zones of a country.
//   - A yearly date closes the same day of each year. --02-29 closes it in leap years.
//
// # Import
//
// Events that last whole days close these dates, from the year before on. A midnight begins and ends a whole day as a
// date does. Import counts the events that it skips: those that begin or end within a day, and those that are over. An
// event that it does not understand is refused by its name: a calendar that left it out would be wrong on some day, and
// no caller would see why.
//
//   - A yearly event that has begun becomes a yearly date. Other recurrences are written out for ImportYears, and the
//     calendar says until when it is complete.
//   - The occurrences of an event are its start, those of its rules, and its further dates (RDATE), without those that
//     it leaves out (EXDATE) and those that another event of the same UID overrides (RECURRENCE-ID).
//   - Whether an event shows as busy does not matter: published lists of holidays are mostly marked as free.
//
// The parser is github.com/arran4/golang-ical, which has releases. github.com/emersion/go-ical has none.
// github.com/teambition/rrule-go computes the recurrences. Rules of time zones in a file do not matter for whole days.
//
// # Why not
//
//   - A calendar of open dates only: lists of holidays are published, lists of working days are not.
package calendar
