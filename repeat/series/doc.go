// Package series makes rules of package repeat from the rules that the log holds for schedules. The API and the leader
// of a shard both use it, and so agree on the instants of a schedule.
package series
