// Package tuning lets tests change a node in ways that no setting offers. A build without the tag `chaos` changes nothing.
//
//	BELFRY_CLOCK_OFFSET_FILE   moves the clock, while the node runs
//	BELFRY_GOSSIP_MUTE_FILE    loses all gossip, while the node runs
//	BELFRY_SNAPSHOTS           takes snapshots after so many bytes of log, and keeps so many entries: "65536,8"
//	BELFRY_STUCK               ends a node whose leader commits nothing for so long: "3s"
package tuning
