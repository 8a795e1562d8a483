package profiles

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestFlightRecorder(t *testing.T) {
	recorder := New()
	defer recorder.Close()
	ask := func(method string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		recorder.ServeHTTP(w, httptest.NewRequest(method, "/debug/flight", nil))
		return w
	}
	if w := ask(http.MethodGet); w.Code != http.StatusConflict {
		t.Errorf("a record before it was begun: %d", w.Code)
	}
	for range 2 { // a second begin changes nothing
		if w := ask(http.MethodPost); w.Code != http.StatusOK {
			t.Fatalf("begin: %d %s", w.Code, w.Body)
		}
	}
	if w := ask(http.MethodGet); w.Code != http.StatusOK || !bytes.HasPrefix(w.Body.Bytes(), []byte("go 1.")) {
		t.Errorf("no trace: %d, %d bytes", w.Code, w.Body.Len())
	}
	if w := ask(http.MethodDelete); w.Code != http.StatusOK {
		t.Errorf("end: %d", w.Code)
	}
	if w := ask(http.MethodGet); w.Code != http.StatusConflict {
		t.Errorf("a record after it was ended: %d", w.Code)
	}
}
