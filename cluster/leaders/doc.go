// Package leaders holds this node's beliefs about which node leads each shard.
package leaders
