package cli

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

var orders = Question{Effect: "cancels 12,431 tasks of queue orders", Kind: "queue", Name: "orders"}

// Only the name of the thing or a whole yes is an agreement.
func TestOnlyANameOrYesAgrees(t *testing.T) {
	for answer, want := range map[string]error{
		"orders\n": nil, "yes\n": nil, "YES\n": nil, " yes \n": nil, "yes": nil,
		"y\n": errRefused, "order\n": errRefused, "Orders\n": errRefused, "\n": errRefused, "": errRefused,
		"yesterday\n": errRefused,
	} {
		var out strings.Builder
		err := orders.Ask(t.Context(), strings.NewReader(answer), &out)
		assert.ErrorIs(t, err, want, "%q", answer)
		const asked = "this cancels 12,431 tasks of queue orders; type the name of the queue (or yes): "
		assert.Equal(t, out.String(), asked, "asked")
	}
}

// A question about nothing that has a name takes only yes.
func TestNamelessQuestion(t *testing.T) {
	q := Question{Effect: "cancels 3 tasks"}
	assert.Equal(t, q.String(), "this cancels 3 tasks; type yes: ", "asks %q", q)
	assert.ErrorIs(t, q.Ask(t.Context(), strings.NewReader("\n"), io.Discard), errRefused, "an empty line")
}

// An interrupt ends the question.
func TestInterruptEndsTheQuestion(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	in, _ := io.Pipe() // never answers
	assert.ErrorIs(t, orders.Ask(ctx, in, io.Discard), context.Canceled)
}
