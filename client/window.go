package client

import (
	"encoding/json"

	"github.com/belfryhq/belfry/internal/contract"
)

// Window is the hours in which attempts and leases may begin. Tasks due at other hours wait for the next opening.
type Window struct {
	TimeZone string   `json:"time_zone,omitempty"` // of the IANA database; empty: UTC
	Daily    []string `json:"daily"`               // such as "09:00-20:00"; a range may cross midnight
	Days     string   `json:"days,omitempty"`      // such as "MON-FRI,SUN"; empty: every day
	Calendar string   `json:"calendar,omitempty"`  // of the namespace: its closed hours are closed here too
}

func (w *Window) read(r *contract.Reader) error {
	text, err := r.Value()
	if err != nil {
		return err
	}
	return json.Unmarshal(text, w)
}
