package access

import (
	"strings"
	"testing"
	"time"
)

func TestKeyTextNamesItsID(t *testing.T) {
	id, text := NewKey()
	if len(id) != idChars || len(text) != 75 || !strings.HasPrefix(text, "bfy_"+id+"_") {
		t.Fatalf("a key of %d characters with the id %q", len(text), id)
	}
	if got, err := ParseKey(text); got != id || err != nil {
		t.Errorf("%q %v", got, err)
	}
	further := NewSecret(id)
	if got, err := ParseKey(further); got != id || err != nil {
		t.Errorf("%q %v", got, err)
	}
	if further == text || Hash(further) == Hash(text) {
		t.Error("a further secret equals the first one")
	}
	if other, _ := NewKey(); other == id {
		t.Error("two keys with one id")
	}
}

// The text of a key never changes its form: secret scanners and stored hashes depend on it.
func TestKeyTextIsStable(t *testing.T) {
	const text = "bfy_abcdefghij_" + "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" + "_rdbgohi"
	if id, err := ParseKey(text); id != "abcdefghij" || err != nil {
		t.Errorf("%q %v", id, err)
	}
}

// Each change of one character, and each cut, is found without a lookup.
func TestMistypedKeysAreFound(t *testing.T) {
	_, text := NewKey()
	for i := range text {
		for _, c := range []byte{'a', 'b', '7', 'A', '_', ' ', 0, 0xff} {
			if mistyped := text[:i] + string([]byte{c}) + text[i+1:]; mistyped != text {
				refusesKey(t, mistyped)
			}
		}
		refusesKey(t, text[:i])
		refusesKey(t, text[i+1:])
		refusesKey(t, text[:i]+"a"+text[i:])
	}
	refusesKey(t, strings.ToUpper(text))
}

func refusesKey(t *testing.T, text string) {
	t.Helper()
	id, err := ParseKey(text)
	if err == nil || id != "" {
		t.Errorf("%q passes as the key %q", text, id)
	} else if len(text) > 8 && strings.Contains(err.Error(), text[4:]) {
		t.Errorf("the error repeats the text: %v", err)
	}
}

// A text with the right checksum can still have characters or a form that no key has.
func TestForgedFormsAreNoKeys(t *testing.T) {
	_, text := NewKey()
	for _, body := range []string{
		"bfy_ABCDEFGHIJ" + text[idEnd:secretEnd],
		text[:idEnd] + "_" + strings.Repeat("0", secretChars),
		text[:idEnd] + "a" + text[idEnd+1:secretEnd],
		"bfz" + text[3:secretEnd],
	} {
		refusesKey(t, body+"_"+checksum(body))
		refusesKey(t, body+"a"+checksum(body))
	}
}

func TestRecordJudgesItsSecrets(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	id, first := NewKey()
	second, other := NewSecret(id), NewSecret(id)
	soon, later := now.Add(time.Minute), now.Add(time.Hour)
	record := KeyRecord{ID: id, Secrets: []KeySecret{{Hash: Hash(first), Expires: soon}, {Hash: Hash(second)}}}
	cases := []struct {
		text    string
		expires time.Time // of the record
		at      time.Time
		until   time.Time
		valid   bool
	}{
		{first, time.Time{}, now, soon, true},
		{first, time.Time{}, soon.Add(-1), soon, true},
		{first, time.Time{}, soon, soon, false},
		{first, later, now, soon, true},
		{second, time.Time{}, later, time.Time{}, true},
		{second, later, now, later, true},
		{second, later, later, later, false},
		{first, now, now, now, false},
		{other, time.Time{}, now, time.Time{}, false},
	}
	for i, c := range cases {
		record.Expires = c.expires
		hash := Hash(c.text)
		if until, valid := record.judge(&hash, c.at); valid != c.valid || !until.Equal(c.until) {
			t.Errorf("case %d: valid %v until %v", i, valid, until)
		}
	}
}
