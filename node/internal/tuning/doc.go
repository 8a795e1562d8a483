// Package tuning lets tests change a node in ways that no setting offers. It changes nothing in a build without the tag
// `chaos`.
//
//	BELFRY_CALM                time that a node must be up before it gets replicas: "1s"
//	BELFRY_CLOCK_OFFSET_FILE   moves the clock, while the node runs
//	BELFRY_GOSSIP_MUTE_FILE    loses all gossip, while the node runs
//	BELFRY_REPLACE_AFTER       time for which a node may be away until others make its replicas anew: "2s"
//	BELFRY_SNAPSHOTS           bytes of log that make a snapshot due, and entries kept after it: "65536,8"
//	BELFRY_STEP_PAUSE          pause before each step of a move of replicas or slots: "200ms"
//	BELFRY_STUCK               time without a commit after which a leader's node ends: "3s"
package tuning
