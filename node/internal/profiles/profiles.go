// Package profiles serves Go's profiles and a flight recorder.
//
//	/debug/pprof/…         the profiles of net/http/pprof
//	POST /debug/flight     record the last two seconds from now on, which has its cost
//	GET /debug/flight      the record, as an execution trace
//	DELETE /debug/flight   stop recording
package profiles

import (
	"net/http"
	"net/http/pprof"
)

// Handler serves the profiles. It takes nothing from http.DefaultServeMux, to which any package may add.
type Handler struct {
	mux    *http.ServeMux
	flight *flight
}

// New returns a handler that records nothing yet.
func New() *Handler {
	h := &Handler{mux: http.NewServeMux(), flight: new(flight)}
	h.mux.HandleFunc("/debug/pprof/", pprof.Index)
	h.mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	h.mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	h.mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	h.mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	h.mux.Handle("/debug/flight", h.flight)
	return h
}

// Handler returns the handler of a request and its pattern, as http.ServeMux does.
func (h *Handler) Handler(r *http.Request) (http.Handler, string) { return h.mux.Handler(r) }

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

// Close stops the flight recorder.
func (h *Handler) Close() {
	h.flight.mu.Lock()
	defer h.flight.mu.Unlock()
	h.flight.stop()
}
