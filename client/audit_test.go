package client

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// The records, and all that the last line says, come through. An answer that is cut off is an error.
func TestAudit(t *testing.T) {
	const first = `{"id":"x-1","time":"2026-11-21T10:00:00.000Z","caller":{"kind":"key","id":"k1"},"status":200,"newer":1}`
	const end = `{"next_cursor":"c2","more":true,"lost":3,"missing":[{"node":"n2","error":"away"}]}`
	answer, query := first+"\n"+end+"\n", ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.Path + "?" + r.URL.RawQuery
		_, _ = w.Write([]byte(answer))
	}))
	defer server.Close()
	c, err := New(Config{Addrs: []string{server.URL}})
	assert.NoError(t, err)
	defer c.Close()
	page, err := c.Audit(t.Context(), AuditQuery{After: "c1", Since: time.Unix(0, 5e8), Limit: 7})
	assert.NoError(t, err)
	assert.Equal(t, query, "/v1/audit?after=c1&limit=7&since=1970-01-01T00%3A00%3A00.5Z")
	if len(page.Records) != 1 || page.Records[0].Caller.ID != "k1" || page.Next != "c2" || !page.More || page.Lost != 3 ||
		page.Missing[0].Node != "n2" {
		t.Errorf("%+v", page)
	}
	if line, err := json.Marshal(page.Records[0]); err != nil || string(line) != first {
		t.Errorf("%s, %v", line, err)
	}
	for _, answer = range []string{first + "\n", first + "\n" + end[:10], ""} {
		page, err := c.Audit(t.Context(), AuditQuery{})
		assert.Error(t, err, "%q: %+v", answer, page)
	}
}
