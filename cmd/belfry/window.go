package main

import (
	"fmt"
	"strings"

	"github.com/belfryhq/belfry/client"
)

const windowUsage = "begin attempts only in these `hours`, as in \"MON-SAT 09:00-20:00 Europe/Berlin\""

// readWindow reads a window of words: daily ranges, days, a time zone, and calendar=NAME. No words are no window.
func readWindow(text string) (*client.Window, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	w := &client.Window{}
	for _, word := range strings.Fields(text) {
		place := &w.Days
		switch name, isCalendar := strings.CutPrefix(word, "calendar="); {
		case isCalendar:
			place, word = &w.Calendar, name
		case strings.Contains(word, ":"):
			w.Daily = append(w.Daily, word)
			continue
		case strings.Contains(word, "/"), word == "UTC":
			place = &w.TimeZone
		}
		if *place != "" {
			return nil, fmt.Errorf("--window %q has %q beside %q: give hours like 09:00-17:00, and days, a time "+
				"zone and a calendar once", text, word, *place)
		}
		*place = word
	}
	return w, nil
}

// window describes a window in the form of the flag.
func window(w *client.Window) string {
	if w == nil {
		return ""
	}
	words := []string{w.Days, strings.Join(w.Daily, " "), w.TimeZone}
	if w.Calendar != "" {
		words = append(words, "calendar="+w.Calendar)
	}
	return strings.Join(strings.Fields(strings.Join(words, " ")), " ")
}
