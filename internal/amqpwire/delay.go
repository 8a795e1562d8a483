package amqpwire

import (
	"fmt"
	"math"
	"strconv"

	amqp "github.com/rabbitmq/amqp091-go"
)

// DelayHeader is the header with the delay of a message, in milliseconds.
const DelayHeader = "x-delay"

// PropertiesHeader is the header of a task's target that has the properties of a message in base64, in the form that
// ReadProperties reads.
const PropertiesHeader = "amqp-properties"

// Delay returns the delay in the headers of a message, in milliseconds: a number of any type, or its digits. A part of
// a millisecond counts as a whole one. No header, or one without a value, is a delay of 0.
func Delay(headers amqp.Table) (ms int64, err error) {
	var n float64
	switch v := headers[DelayHeader].(type) {
	case nil:
		return 0, nil
	case int8:
		return int64(v), nil
	case uint8:
		return int64(v), nil
	case int16:
		return int64(v), nil
	case uint16:
		return int64(v), nil
	case int32:
		return int64(v), nil
	case uint32:
		return int64(v), nil
	case int64:
		return v, nil
	case float32:
		n = float64(v)
	case float64:
		n = v
	case string:
		if ms, err = strconv.ParseInt(v, 10, 64); err == nil {
			return ms, nil
		}
		n = math.NaN()
	default:
		n = math.NaN()
	}
	if n = math.Ceil(n); math.IsNaN(n) || math.Abs(n) >= 1<<62 {
		return 0, fmt.Errorf("%s is no number of milliseconds", DelayHeader)
	}
	return int64(n), nil
}

// Delayed sets the delay in the headers of a message that was delayed to its negative, so that no exchange or intake
// delays the message again.
func Delayed(headers amqp.Table) {
	ms, err := Delay(headers)
	switch {
	case err != nil || ms <= 0:
	case ms <= math.MaxInt32:
		headers[DelayHeader] = int32(-ms)
	default:
		headers[DelayHeader] = -ms
	}
}
