package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// Both formats show durations and errors alike.
func TestLogFormats(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		l, err := newLogger(&out, "info", format)
		assert.NoError(t, err)
		l.Info("done", "took", 1200*time.Microsecond, "err", errors.New("torn"))
		if format == "text" {
			assert.Contains(t, out.String(), "msg=done took=1.2ms err=torn", "text: %s", &out)
			continue
		}
		var record map[string]any
		if err := json.Unmarshal(out.Bytes(), &record); err != nil || record["took"] != "1.2ms" || record["err"] != "torn" {
			t.Errorf("json: %s, %v", &out, err)
		}
	}
}
