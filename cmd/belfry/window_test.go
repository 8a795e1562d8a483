package main

import (
	"testing"
)

func TestWindowFlag(t *testing.T) {
	for text, want := range map[string]string{
		"":            "",
		"09:00-20:00": "09:00-20:00",
		"Europe/Berlin 09:00-12:00 MON-SAT 14:00-18:00 calendar=holidays": "MON-SAT 09:00-12:00 14:00-18:00 Europe/Berlin calendar=holidays",
	} {
		w, err := readWindow(text)
		if err != nil || window(w) != want {
			t.Errorf("%q: %+v, %v", text, w, err)
		}
	}
	for _, wrong := range []string{"MON TUE 09:00-20:00", "Europe/Berlin Asia/Tokyo 09:00-20:00"} {
		if w, err := readWindow(wrong); err == nil {
			t.Errorf("%q: %+v", wrong, w)
		}
	}
}
