// Package lossyfs is a FUSE file system on which what was written is durable only once it was synced.
package lossyfs
