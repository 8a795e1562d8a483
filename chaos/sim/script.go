package sim

import "github.com/belfryhq/belfry/chaos/load"

// scripts are the scripts of a simulated cluster's load.
var scripts = []load.Script{
	{Weight: 30, Play: load.Plain},
	{Weight: 4, Play: load.Storm},
	{Weight: 8, Play: load.Retried},
	{Weight: 3, Play: load.Dead},
	{Weight: 12, Play: load.Cancelled},
	{Weight: 10, Play: load.CancelledAtDue},
	{Weight: 8, Play: load.Replaced},
	{Weight: 4, Play: load.ReplacedAndCancelled},
	{Weight: 4, Play: load.ReplacedAtDue},
	{Weight: 6, Play: load.Patched},
	{Weight: 6, Play: load.Touched},
	{Weight: 5, Play: load.Fired},
	{Weight: 4, Play: load.Conditional},
	{Weight: 5, Play: load.Expiring},
	{Weight: 8, Play: load.Queued},
	{Weight: 12, Play: load.Pulled},
}
