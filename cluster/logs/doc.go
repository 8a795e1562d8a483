// Package logs shapes a node's log records about other nodes and strangers.
//
//   - Memberlist writes the lines of that library, with a level in brackets, to a slog.Logger. The library is
//     talkative, so its information lines become debugging lines.
//   - Limited keeps strangers, who can reach the ports of a node, from filling its disk with log lines. It writes one
//     record of a kind in ten seconds, with the number of suppressed records before it. Metrics count every event
//     (belfry_peer_packets_total, belfry_peer_dropped_connections_total).
//
// # Why not otherwise
//
// Not a rate for the whole log (golang.org/x/time/rate): one flood would hide everything else, and a limiter for each
// kind still needs the kinds. Not samber/slog-sampling: it decides by a rate or a threshold and gives the dropped
// records to a hook, so that bounded kinds and their counts would still be ours. Not a record of its own when a flood
// ends: it needs a timer that writes to a log after its node was closed, and the counts of the metrics are exact.
package logs
