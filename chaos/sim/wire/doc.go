// Package wire is the network of a simulation: hosts, and between each two of them two ways, each with a quality of its
// own. It carries Raft's messages (Transport) and all other calls between nodes (Call).
//
// It behaves as connections do between processes. A message to a process that has ended is refused. One that is lost,
// or that falls into a cut, leaves its sender waiting until he gives up; so does the loss of the answer, and then what
// was asked has been done. A message is for the process that it was sent to, not for the one that runs there later.
// What is sent to a frozen process waits for it, as in a socket's buffer, and is there when it wakes, wanted or not.
//
// Two things go beyond TCP, because Raft claims to bear them and a proxy or a retry may bring them about: a request may
// arrive once more, and a request may arrive long after its sender has given up. Heartbeats overtake entries and are
// overtaken; entries of one pipeline keep their order.
//
// A host stands for a process: Down is its death. Everything that belongs to a dead process goes on in a void, whose
// messages reach nobody and which nobody's messages reach.
//
// It is made for synctest: whoever waits, waits for a channel or a timer, and never with a lock held.
package wire
