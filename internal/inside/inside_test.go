package inside

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestTransport checks what a handler sees of a call, and what the caller sees of its answer.
func TestTransport(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		switch {
		case err != nil:
			t.Error(err)
		case r.URL.Path == "/cut":
			panic(http.ErrAbortHandler)
		case r.URL.Path == "/bug":
			panic("a bug")
		case r.URL.Path == "/empty":
			return
		}
		if r.RemoteAddr != "10.0.0.7:5" || r.RequestURI != "/path?q=1" || string(body) != "body" {
			t.Errorf("%s %s %q", r.RemoteAddr, r.RequestURI, body)
		}
		w.Header().Set("X", "y")
		w.WriteHeader(http.StatusTeapot)
		w.WriteHeader(http.StatusOK)
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, "answer") // it cannot fail
	})
	c := http.Client{Transport: &Transport{Handler: handler, From: "10.0.0.7:5"}}
	resp, err := c.Post("http://localhost/path?q=1", "text/plain", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusTeapot || resp.Header.Get("X") != "y" || string(answer) != "answer" {
		t.Errorf("%+v %q, %v", resp, answer, err)
	}
	for path, text := range map[string]string{"/cut": "abort", "/bug": "a bug"} {
		resp, err := c.Get("http://localhost" + path)
		if !errors.Is(err, errCut) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v, %v", path, resp, err)
		}
	}
	resp, err = c.Get("http://localhost/empty")
	if err != nil || resp.StatusCode != http.StatusOK || resp.Body.Close() != nil {
		t.Errorf("%+v, %v", resp, err)
	}
}
