//go:build chaos

package store

import (
	"github.com/belfryhq/belfry/fsm/flaw"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// flawChangesWebhookID gives each attempt of a task a different webhook id.
func flawChangesWebhookID(s *Store, t *fsmpb.Task) {
	if flaw.TwoIDs.On() {
		t.WebhookId = s.Origins.WebhookID(t.Namespace, t.Id, t.Fence)
	}
}
