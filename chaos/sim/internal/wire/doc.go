// Package wire simulates the network between nodes. It connects hosts, each of which stands for one process:
//
//	          way a→b, a quality of its own
//	Host a ───────────────────────────────▶ Host b
//	       ◀───────────────────────────────
//	          way b→a, a quality of its own
//
//	Transport    Raft's messages, one transport a group
//	Call         one call of another node
//	Dial         a stream of messages in both directions
//
// Messages behave as on connections between processes:
//
//   - A message to a process that has ended is refused.
//   - A message that is lost, or sent into a cut, leaves its sender waiting until the sender gives up.
//   - The loss of an answer looks the same to the sender, but then the receiver has carried out the request.
//   - A message reaches only the process that it was sent to, not a later process of the same name.
//   - A message to a frozen process waits for it, as in a socket's buffer, and is there when the process wakes.
//
// Two things go beyond TCP, because Raft claims to bear them and a proxy or a retry may bring them about: one of
// Raft's requests may arrive twice, or long after its sender has given up. Heartbeats overtake entries and are
// overtaken. The entries of one pipeline keep their order.
//
// Host.Down is the death of a process. The goroutines of a dead process go on in a void: their messages reach no host,
// and no message reaches them.
//
// The package is made for synctest: every wait is for a channel or a timer, and no goroutine waits with a lock held.
package wire
