package profiles

import (
	"net/http"
	"runtime/trace"
	"sync"
	"time"
)

const (
	flightAge   = 2 * time.Second // time that a record covers, or less if flightBytes do not hold it
	flightBytes = 32 << 20
)

// flight is a flight recorder: it keeps the last moments of the process, for a slowness that is noticed afterwards.
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
	_, _ = f.recorder.WriteTo(w) // the caller has gone
}

func (f *flight) stop() {
	if f.recorder != nil {
		f.recorder.Stop()
		f.recorder = nil
	}
}
