package contract

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

func unquoted(b []byte) string { return strings.Trim(string(b), `"`) }

// TestDurationsAgreeWithGo checks that ParseDuration reads the durations that Go writes, and those that AppendDuration
// writes.
func TestDurationsAgreeWithGo(t *testing.T) {
	agree := func(n int64, digits uint8) bool {
		n >>= digits % 64 // short ones, too
		d := time.Duration(max(n, -math.MaxInt64))
		if got, err := ParseDuration(d.String()); err != nil || got != d {
			t.Errorf("%v: %v %v", d, got, err)
			return false
		}
		ms := (n & math.MaxInt64) % (100 * 365 * 24 * 3600 * 1000)
		text := unquoted(AppendDuration(nil, time.Duration(ms)*time.Millisecond))
		got, err := ParseDuration(text)
		if err != nil || got.Milliseconds() != ms {
			t.Errorf("%d ms became %s became %v %v", ms, text, got, err)
		}
		return !t.Failed()
	}
	assert.Equal(t, quick.Check(agree, &many), nil)
}

// many is more than the 100 values that testing/quick takes by default.
var many = quick.Config{MaxCount: 5000}

func TestAppendDuration(t *testing.T) {
	for ms, want := range map[int64]string{500: "500ms", 1500: "1.5s", 15_000: "15s", 600_000: "10m", 5_400_000: "1h30m",
		48 * 3_600_000: "48h", 7 * 86_400_000: "7d", 86_400_000*3 + 1: "3d1ms", -5_400_000: "-1h30m",
		-7 * 86_400_000: "-7d"} {
		assert.Equal(t, unquoted(AppendDuration(nil, time.Duration(ms)*time.Millisecond)), want, "%d", ms)
	}
}

// TestReaderAgreesWithEncodingJSON checks that the reader accepts the texts that encoding/json accepts, depth and UTF-8
// aside.
func TestReaderAgreesWithEncodingJSON(t *testing.T) {
	alphabet := []string{"{", "}", "[", "]", ",", ":", `"a"`, `"\n"`, `"`, `\`, "1", "-", "0", ".", "e", "true", "false",
		"null", " ", "\t", "x"}
	agree := func(parts [12]uint8, n uint8) bool {
		var text []byte
		for _, part := range parts[:n%13] {
			text = append(text, alphabet[int(part)%len(alphabet)]...)
		}
		s := NewReader(text)
		_, err := s.Value()
		if err == nil {
			err = s.End()
		}
		assert.Equal(t, json.Valid(text), err == nil, "%q: %v", text, err)
		return !t.Failed()
	}
	assert.Equal(t, quick.Check(agree, &many), nil)
}

func TestStringsAreWrittenAsTheyWere(t *testing.T) {
	written := func(high string, low []uint8) bool {
		text := high
		for _, c := range low {
			text += string(rune(c % 128)) // quickly drawn runes are seldom those that JSON escapes
		}
		out := AppendString(nil, text)
		var back string
		if err := json.Unmarshal(out, &back); err != nil || back != text {
			t.Errorf("%q became %s became %q (%v)", text, out, back, err)
		}
		s := NewReader(out)
		if own, err := s.Text("text"); err != nil || own != text {
			t.Errorf("%q became %s became %q (%v)", text, out, own, err)
		}
		return !t.Failed()
	}
	assert.Equal(t, quick.Check(written, nil), nil)
	assert.Equal(t, string(AppendString(nil, "a\xffb")), "\"a\ufffdb\"", "a bad byte")
}

// TestMembers checks that members are read by name, that a second one and an unknown one are refused, and that only a
// merge patch has nulls.
func TestMembers(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1,"b":2}`: "", `{}`: "", `{"b":2}`: "", `{"a":1,"a":2}`: "x.a is given twice",
		`{"c":1}`: "x.c is not a field that is known", `{"a":null}`: "x.a must be a whole number", `[]`: "x must be an object",
		`{"b":10}`: "x.b is 10 (limit 0 to 9)", `{"d":1}`: "x.d is set by the service and cannot be sent",
		`{"l":[1,2]}`: "", `{"l":[1,"x"]}`: "x.l[1] must be a whole number", `{"l":[1,2,3]}`: "too many",
		`{"a":1} 2`: "something follows the end of the JSON value at character 9",
	} {
		digit := func(r *Reader, full string) (int64, error) { return r.Whole(full, 0, 9) }
		var a, b int64
		var list []int64
		members := Members{
			"a": Into(&a, digit), "b": Into(&b, digit), "d": SetByService,
			"l": Into(&list, func(r *Reader, full string) ([]int64, error) {
				return List(r, full, 2, errors.New("too many"), digit)
			}),
		}
		r := NewReader([]byte(text))
		err := members.Object(r, "x", false)
		if err == nil {
			err = r.End()
		}
		got := ""
		if err != nil {
			got = err.Error()
		}
		assert.Equal(t, got, want, "%s", text)
		if text == `{"a":1,"b":2}` && (a != 1 || b != 2) {
			t.Errorf("%s: a is %d, b is %d", text, a, b)
		}
		if err := members.Root([]byte(`{"a":null,"b":3,"l":null}`), true); err != nil || a != 0 || b != 3 || list != nil {
			t.Errorf("a merge patch: a is %d, b is %d, l is %v, %v", a, b, list, err)
		}
	}
	err := Members{}.Root([]byte(" "), false)
	if err == nil || err.Error() != "the body is empty, and it ends at character 2" {
		t.Errorf("an empty text: %v", err)
	}
}

// TestWholeNumbers checks that a number counts as whole by its value, in any spelling, and that it is never rounded.
func TestWholeNumbers(t *testing.T) {
	const big = "9007199254740993" // no float64 is equal to it
	for text, want := range map[string]string{
		"3": "3", "3.0": "3", "3e0": "3", "30e-1": "3", "0.3E+1": "3", "3.000000000000000000000000": "3", "-0.0": "0",
		"0e99999999999999999999": "0", "-2.0": "-2", "1e3": "1000", big: big, big + ".00": big, "9007199254740993000e-3": big,
		"3.1": "must be a whole number", "3e-1": "must be a whole number", "1e-99999999999999999999": "must be a whole number",
		"3.0000000000000000000001": "must be a whole number", "31e-1": "must be a whole number",
		"1e19": "is 1e19", "1e400": "is 1e400", "1e99999999999999999999": "is 1e99999999999999999999",
	} {
		n, err := NewReader([]byte(text)).Whole("n", -9, 1<<60)
		got := strconv.FormatInt(n, 10)
		if err != nil {
			got = err.Error()
		}
		assert.Contains(t, got, want, "%s", text)
		u, err := NewReader([]byte(text)).Uint("n", 1<<60)
		if got = strconv.FormatUint(u, 10); (err != nil) != (want[0] == '-' || want[0] > '9') || err == nil && got != want {
			t.Errorf("%s, without a sign: %s, %v", text, got, err)
		}
	}
}
