package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
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
		if !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", answer, err, want)
		}
		const asked = "this cancels 12,431 tasks of queue orders; type the name of the queue (or yes): "
		if out.String() != asked {
			t.Errorf("asked %q", out.String())
		}
	}
}

// A question about nothing that has a name takes only yes.
func TestNamelessQuestion(t *testing.T) {
	q := Question{Effect: "cancels 3 tasks"}
	if q.String() != "this cancels 3 tasks; type yes: " {
		t.Errorf("asks %q", q)
	}
	if err := q.Ask(t.Context(), strings.NewReader("\n"), io.Discard); !errors.Is(err, errRefused) {
		t.Errorf("an empty line: %v", err)
	}
}

// An interrupt ends the question.
func TestInterruptEndsTheQuestion(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	in, _ := io.Pipe() // never answers
	if err := orders.Ask(ctx, in, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
