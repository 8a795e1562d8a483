// Package throttle decides how many attempts one receiver may have under way: a window that adapts, and a circuit
// breaker.
//
// The window begins small. While all of it is in use and attempts succeed it grows by one with each of them, so it
// doubles with each round; once one has failed, or answers have become slow, it grows by an eighth of that. While
// answers are slow, which is to say that lately they took twice as long as at best, it shrinks at the same pace: what
// is sent to a receiver beyond what it works on only waits there, and takes this machine's time from other receivers'
// tasks. Each failure takes one off, a timeout two: a receiver that fails one attempt in twenty keeps growing, one
// that fails half of them is soon down to one at a time. A receiver that says when to come back is left alone until
// then, for a bounded time.
//
// The breaker opens only after a long run of failures without one success, because what waits behind an open one waits
// without using up its attempts, and a receiver that refuses one task may well take the next. While it is open, one
// attempt at a time probes, after pauses that grow; the first success closes it.
//
// It is a pure data structure: no clock, no lock. Who the receiver is, and what waits for it, is the caller's business.
//
// Why not otherwise: not a rate, which would have to be guessed, while a window finds the receiver's own pace; not a
// share of failures as the breaker's threshold, because the window already answers those.
package throttle
