//go:build chaos

package replicas

import "github.com/belfryhq/belfry/fsm/flaw"

// flawKeepsFiles reports whether a replica that was removed while its node was down is opened again with its old files.
func flawKeepsFiles() bool { return flaw.KeptFiles.On() }
