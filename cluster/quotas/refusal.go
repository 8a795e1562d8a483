package quotas

import (
	"errors"
	"fmt"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/quota"
)

// refusal returns the error of a command without a claim. Nothing was proposed.
func refusal(err error) error {
	var full *quota.Exceeded
	if err == nil || errors.As(err, &full) || errors.Is(err, task.ErrNotProposed) {
		return err
	}
	return fmt.Errorf("%w: %w", task.ErrNotProposed, err)
}
