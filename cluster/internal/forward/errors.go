package forward

import (
	"context"
	"errors"
	"fmt"

	"github.com/belfryhq/belfry/fsm/task"
)

// notSent is the error of a call that has certainly not left this node.
func notSent(node string, cause error) error {
	return fmt.Errorf("%w: not sent to node %s: %w", task.ErrNotProposed, node, cause)
}

// unanswered is the error of a call that was sent and not answered. A call that changes nothing may be repeated.
func unanswered(node string, read bool, cause error) error {
	kind := task.ErrUnknown
	if read && !errors.Is(cause, context.Canceled) {
		kind = task.ErrNotProposed
	}
	return fmt.Errorf("%w: node %s did not answer: %w", kind, node, cause)
}
