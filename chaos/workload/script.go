package workload

import "github.com/belfryhq/belfry/chaos/load"

// scripts are the scripts of a real cluster's load.
var scripts = []load.Script{
	{Weight: 40, Play: load.Plain},
	{Weight: 4, Play: load.Batch},
	{Weight: 8, Play: load.Retried},
	{Weight: 2, Play: load.Dead},
	{Weight: 12, Play: load.Cancelled},
	{Weight: 10, Play: load.CancelledAtDue},
	{Weight: 4, Play: load.Stopped},
	{Weight: 8, Play: load.Replaced},
	{Weight: 4, Play: load.ReplacedAndCancelled},
	{Weight: 6, Play: load.Patched},
	{Weight: 6, Play: load.Touched},
	{Weight: 2, Play: load.Heartbeats},
	{Weight: 5, Play: load.Fired},
	{Weight: 4, Play: load.Conditional},
}
