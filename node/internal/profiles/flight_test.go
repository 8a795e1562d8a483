package profiles

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/belfryhq/belfry/internal/assert"
)

func TestFlightRecorder(t *testing.T) {
	recorder := New()
	defer recorder.Close()
	ask := func(method string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		recorder.ServeHTTP(w, httptest.NewRequest(method, "/debug/flight", nil))
		return w
	}
	w := ask(http.MethodGet)
	assert.Equal(t, w.Code, http.StatusConflict, "a record before it was begun")
	for range 2 { // a second begin changes nothing
		w := ask(http.MethodPost)
		assert.MustEqual(t, w.Code, http.StatusOK, "begin: %s", w.Body)
	}
	if w := ask(http.MethodGet); w.Code != http.StatusOK || !bytes.HasPrefix(w.Body.Bytes(), []byte("go 1.")) {
		t.Errorf("no trace: %d, %d bytes", w.Code, w.Body.Len())
	}
	w = ask(http.MethodDelete)
	assert.Equal(t, w.Code, http.StatusOK, "end")
	w = ask(http.MethodGet)
	assert.Equal(t, w.Code, http.StatusConflict, "a record after it was ended")
}
