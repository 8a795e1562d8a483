// Package repeating reads the rules, windows and calendars of requests into messages, and the rules of messages into
// rules that tell instants.
//
//	Member, Rule      a rule in JSON → fsmpb.Repeat, from nothing or as a merge patch → repeat.Rule
//	NextOf            a rule in JSON → its next occurrences
//	ReadWindow        a window in JSON → fsmpb.Window
//	ReadCalendar      a calendar in JSON → fsmpb.Calendar; ImportCalendar reads an iCalendar file
//
// Previews and schedules read their rules here, so that both take the same members with the same limits.
package repeating
