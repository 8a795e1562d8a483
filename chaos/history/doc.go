// Package history records a fault run, in memory for the checks and in a file for people.
//
//	record        one for each                              instants
//	Call          request, or line of a batch request       start, end
//	Arrival       delivery attempt, or lease of a consumer  arrival
//	Fault         injected fault                            struck, mending began, mended
//	Term          observed leader of a shard                seen, previous term last seen
//	Replica       position and hash of one replica          read
//	Entry         text of an API key, or namespace          made, first call that may end it, ended
//	Trial         call that tries a credential at a node    start, end
//	Roll          keys, namespaces or tasks that a node     start, end
//	              lists
//	ScheduleCall  operation about a schedule, and its       start, end
//	              tries
//	Tally         schedule at the end of the run            read
//
// Rules of the record:
//   - A run only records. The checks judge it afterwards, from the record alone. So a record holds observations and no
//     conclusions: a call without an answer has an unknown outcome, and keeps it whatever a later read shows.
//   - A file holds one JSON line for each event, with the start and the end of a call apart. The lines hold the whole
//     record. The recorder buffers the lines, and flushes them when a fault strikes and at Close. If the harness
//     dies, the file holds the run up to the last flush at least. In memory a call is one record.
//   - All instants are readings of one clock, the harness's own: the machine's clock at the start of the run, plus the
//     monotonic time since. Setting the machine's clock cannot disturb the order of events, and instants can still be
//     compared with due times.
//
// Other packages make the calls (workload), inject the faults (faults) and judge (check).
package history
