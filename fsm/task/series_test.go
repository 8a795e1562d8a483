package task

import "testing"

func TestOccurrenceIDs(t *testing.T) {
	for id, want := range map[string]string{
		"nightly@1": "nightly 1", "nightly@18446744073709551615": "nightly 18446744073709551615", "a.b:c@20": "a.b:c 20",
		"nightly": "", "nightly@": "", "nightly@0": "", "nightly@01": "", "nightly@-1": "", "nightly@+1": "", "nightly@1.5": "",
		"nightly@x": "", "nightly@1@2": "", "nightly@18446744073709551616": "", "@": "",
	} {
		name, number, ok := SplitOccurrence(id)
		switch {
		case ok != (want != ""):
			t.Errorf("%q is an occurrence: %v", id, ok)
		case ok && OccurrenceID(name, number) != id:
			t.Errorf("%q is occurrence %d of %q", id, number, name)
		}
		if err := CheckTaskID("id", id); (err == nil) != (ok || id == "nightly") {
			t.Errorf("%q: %v", id, err)
		}
	}
	if err := CheckTaskID("id", "@1"); err == nil {
		t.Error("an occurrence of a schedule without an id passes")
	}
}

// TestScheduleSharesItsSlot checks that a schedule and all its occurrences are in one slot.
func TestScheduleSharesItsSlot(t *testing.T) {
	for _, namespace := range []string{"", "billing"} {
		want := Slot(namespace, "nightly")
		for _, id := range []string{SeriesID("nightly"), OccurrenceID("nightly", 1), OccurrenceID("nightly", 1e12)} {
			if got := Slot(namespace, id); got != want {
				t.Errorf("%q in %q is in slot %d, and the schedule in %d", id, namespace, got, want)
			}
		}
	}
	if id, ok := SplitSeries(SeriesID("nightly")); id != "nightly" || !ok {
		t.Errorf("the record is of %q, %v", id, ok)
	}
	if _, ok := SplitSeries("nightly@1"); ok {
		t.Error("an occurrence passes for a schedule")
	}
}
