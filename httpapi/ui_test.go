package httpapi

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestDashboardIsMounted checks the addresses of the dashboard, and that nothing else becomes one.
func TestDashboardIsMounted(t *testing.T) {
	ui := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "page "+r.URL.Path) })
	s, err := New(Config{Backend: newHarness(t).server.cfg.Backend, UI: ui})
	if err != nil {
		t.Fatal(err)
	}
	const html = "text/html,application/xhtml+xml"
	for _, c := range []struct {
		method, path, accept string
		status               int
		body, location       string
	}{
		{"GET", "/ui/", html, 200, "page /ui/", ""},
		{"GET", "/ui/tasks/a", "*/*", 200, "page /ui/tasks/a", ""},
		{"GET", "/ui", html, 302, "", "/ui/"},
		{"GET", "/", html, 302, "", "/ui/"},
		{"GET", "/", "*/*", 404, "", ""},
		{"GET", "/uix", html, 404, "", ""},
		{"POST", "/ui/", html, 405, "", ""},
	} {
		r := httptest.NewRequest(c.method, "http://localhost"+c.path, http.NoBody)
		r.Header.Set("Accept", c.accept)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != c.status || c.body != "" && w.Body.String() != c.body || w.Header().Get("Location") != c.location {
			t.Errorf("%s %s for %s: %d %q, to %q", c.method, c.path, c.accept, w.Code, w.Body, w.Header().Get("Location"))
		}
	}
}
