package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/belfryhq/belfry/delivery"
)

// failure is an error whose text is fit for last_error.
type failure struct {
	text      string
	permanent bool // no retry can help
}

func (f *failure) Error() string { return f.text }

func failed(format string, args ...any) error { return &failure{text: fmt.Sprintf(format, args...)} }

func hopeless(format string, args ...any) error {
	return &failure{text: fmt.Sprintf(format, args...), permanent: true}
}

var (
	errTimedOut = errors.New("the attempt's time is over")
	errClosed   = errors.New("this node closed the connection")
	errSilent   = errors.New("the broker answered nothing for too long")
)

// worded returns err as a failure.
func worded(err error) *failure {
	var f *failure
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &failure{text: "the broker closed the connection"}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return &failure{text: "the broker did not answer in time"}
	}
	return &failure{text: delivery.Describe(err)}
}

// refusal returns the failure of a message that the broker refuses, permanently or not.
func refusal(err error) error { return failed("the broker refused: %s", delivery.Describe(err)) }
