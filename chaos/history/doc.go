// Package history is the memory of a fault run: every call with its start and what it came to, every arrival at the
// receiver, every fault and every change of leaders, each at an instant of one clock, the harness's own.
//
// A run records, and judges afterwards from the record alone. That is why a record holds what was seen and nothing
// that was concluded: a call whose answer never came is unknown, and stays so whatever a later read shows. Each line
// goes to a file as it happens (JSON lines, a call's start and its end apart), so that a run can be judged again, and
// a harness that dies leaves what it saw; in memory a call is one record.
//
// One clock, and its reading is an instant of the machine's clock at the start of the run plus a monotonic duration
// since: the order of events cannot be disturbed by a clock that is set, and due times can still be compared with it.
//
// It leaves to others: making calls (workload), breaking things (faults) and every judgement (check).
package history
