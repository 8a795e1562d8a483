package task

import "time"

const (
	// OutlookStep is the length of the steps in which an fsmpb.Outlook counts coming tasks.
	OutlookStep = 4 * time.Second
	// ActivityStep is the length of the steps in which an fsmpb.Activity counts events.
	ActivityStep = 5 * time.Second
)

// LatenessBounds are the upper bounds of the classes of lateness of an fsmpb.ActivityStep. One more class has all
// greater ones.
var LatenessBounds = [...]time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second,
	5 * time.Second,
}
