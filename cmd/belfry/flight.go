package main

import (
	"net/http"
	"runtime/trace"
	"sync"
	"time"
)

// What a flight recorder keeps: so much time, if that fits into so many bytes.
const (
	flightAge   = 2 * time.Second
	flightBytes = 32 << 20
)

// flight records what the process did last, for somebody who noticed only afterwards that it was slow. POST begins to
// record, which has its cost from then on; GET gives the last moments as an execution trace; DELETE ends it.
type flight struct {
	mu       sync.Mutex
	recorder *trace.FlightRecorder // nil: nothing is recorded
}

func (f *flight) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch r.Method {
	case http.MethodPost:
		f.start(w)
	case http.MethodGet:
		f.write(w)
	case http.MethodDelete:
		f.stop()
	default:
		http.Error(w, "POST, GET or DELETE", http.StatusMethodNotAllowed)
	}
}

func (f *flight) start(w http.ResponseWriter) {
	if f.recorder != nil {
		return
	}
	recorder := trace.NewFlightRecorder(trace.FlightRecorderConfig{MinAge: flightAge, MaxBytes: flightBytes})
	if err := recorder.Start(); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	f.recorder = recorder
}

func (f *flight) write(w http.ResponseWriter) {
	if f.recorder == nil {
		http.Error(w, "nothing is recorded: POST here begins it", http.StatusConflict)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = f.recorder.WriteTo(w) // whoever asked has gone
}

func (f *flight) stop() {
	if f.recorder != nil {
		f.recorder.Stop()
		f.recorder = nil
	}
}
