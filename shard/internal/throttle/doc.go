// Package throttle bounds the attempts that one receiver may have under way, by an adaptive window and a circuit
// breaker.
//
//	                         window                            breaker
//	success, window in use   +1; +1/8 after the first limit    closes
//	success, window not used the same, up to Start            closes
//	success, slow answer     1/8 towards a quarter of Start    closes
//	failure                  -1, not under Start               opens after a long run without success
//	timeout                  -2, not under 1                   the same
//	"come back later"        half, and nothing until then      -
//	refusal of one task      as a success                      stays as it is
//
// How it adapts:
//
//   - The window begins small. It doubles with each round until the receiver meets a limit: a failure, or slow answers.
//   - Answers are slow when even the fastest of the last round took over twice the best time. Attempts beyond the
//     receiver's own pace only wait there, and take this machine's time from other receivers. The average of the
//     answers tells less: a receiver that needs half a second for one task in five is not crowded.
//   - A broker confirms many messages together, after one sync, and the later the more there are. So its answers are
//     never slow, and its window grows to the largest.
//   - The window of a receiver that fails one attempt in twenty keeps growing. The window of one that fails half of
//     them soon shrinks to Start, and no further: such tasks wait for their next attempts, and the healthy tasks beside
//     them would leave one by one. Only timeouts and a wish to come back later tell of too many attempts.
//   - Timeouts also shrink a window that is not in use. So successes restore it up to Start, in use or not.
//   - A receiver that names a time to come back gets no attempt before it, within Config.MaxPause.
//   - The breaker opens late: tasks behind an open breaker wait without using up their attempts, and a receiver that
//     refuses one task may well take the next. One attempt at a time probes an open breaker, after pauses that grow
//     with every third probe. The first success closes it.
//   - One receiver may have several throttles, one for each path that fails. Their owner says whether the receiver
//     fails under all names (Ending.Down), and whether it has succeeded under another one (Ending.Alive).
//
// A Throttle is a pure data structure: no clock, no lock. The caller knows the receiver and the waiting tasks.
//
// # Why not otherwise
//
//   - Not a rate: an operator would have to guess it, while a window finds the receiver's own pace.
//   - Not a share of failures as the breaker's threshold: the window already answers those.
package throttle
