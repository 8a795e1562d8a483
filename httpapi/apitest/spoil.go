package apitest

import (
	"strings"

	"pgregory.net/rapid"
)

// ways lists the functions that spoil a request. Each returns a description of its change.
var ways = []func(*rapid.T, *Request) string{
	cutBody, flipByte, unknownField, twiceTheField, otherType, deepBody, largeNumber, otherMethod, unknownParameter,
	oddPath, noType, longHeader, notUTF8, swapValue,
}

// spoil breaks a request in one or two places.
func spoil(t *rapid.T, r *Request) {
	for range rapid.IntRange(1, 2).Draw(t, "spoils") {
		r.Spoiled += rapid.SampledFrom(ways).Draw(t, "way")(t, r) + "; "
	}
}

func at(t *rapid.T, text string) int { return rapid.IntRange(0, len(text)).Draw(t, "at") }

func cutBody(t *rapid.T, r *Request) string {
	r.Body = r.Body[:at(t, r.Body)]
	return "cut"
}

func flipByte(t *rapid.T, r *Request) string {
	if i := at(t, r.Body); i < len(r.Body) {
		r.Body = r.Body[:i] + string([]byte{rapid.Byte().Draw(t, "byte")}) + r.Body[i+1:]
	}
	return "flipped byte"
}

func unknownField(_ *rapid.T, r *Request) string {
	r.Body = strings.Replace(r.Body, "{", `{"unknown":1,`, 1)
	return "unknown field"
}

func twiceTheField(_ *rapid.T, r *Request) string {
	r.Body = strings.Replace(r.Body, "{", `{"delay":"1h","delay":"1h",`, 1)
	return "a field twice"
}

// otherType replaces a string by a value of another type.
func otherType(t *rapid.T, r *Request) string {
	others := []string{"0", "-1", "null", "true", "[]", "{}", `""`, `"\ud800"`, "1e1000"}
	other := rapid.SampledFrom(others).Draw(t, "other")
	r.Body = strings.Replace(r.Body, `:"`, ":"+other+`,"x":"`, 1)
	return "another type"
}

func swapValue(t *rapid.T, r *Request) string {
	parts := strings.SplitAfter(r.Body, ":")
	if len(parts) > 1 {
		i := rapid.IntRange(1, len(parts)-1).Draw(t, "value")
		parts[i] = encode(drawAny(t)) + strings.TrimLeft(parts[i], `"abcdefghijklmnopqrstuvwxyz0123456789-`)
	}
	r.Body = strings.Join(parts, "")
	return "another value"
}

func deepBody(t *rapid.T, r *Request) string {
	n := rapid.IntRange(10, 20000).Draw(t, "depth")
	r.Body = strings.Replace(r.Body, "{", `{"payload":`+strings.Repeat("[", n)+strings.Repeat("]", n)+",", 1)
	return "deep"
}

func largeNumber(_ *rapid.T, r *Request) string {
	r.Body = strings.Replace(r.Body, "{", `{"retry":{"max_attempts":`+strings.Repeat("9", 400)+"},", 1)
	return "large number"
}

func otherMethod(t *rapid.T, r *Request) string {
	r.Method = rapid.SampledFrom([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "LOCK"}).
		Draw(t, "method")
	return "another method"
}

func unknownParameter(t *rapid.T, r *Request) string {
	r.Target += rapid.SampledFrom([]string{"?x=1", "?limit=-1", "?&&=&", "?%", "?limit=1&limit=2"}).Draw(t, "query")
	return "another query"
}

func oddPath(t *rapid.T, r *Request) string {
	r.Target = strings.Replace(r.Target, "/v1/", "/v1/"+rapid.SampledFrom([]string{"/", "../", "%2e%2e/", "x/"}).
		Draw(t, "path"), 1)
	return "another path"
}

func noType(t *rapid.T, r *Request) string {
	kind := rapid.SampledFrom([]string{"", "text/plain", "application/x-www-form-urlencoded", "application/json; x"}).
		Draw(t, "content type")
	r.Header = append(r.Header, [2]string{"Content-Type", kind})
	return "content type"
}

func longHeader(t *rapid.T, r *Request) string {
	key := strings.Repeat("k", rapid.IntRange(0, 600).Draw(t, "length"))
	r.Header = append(r.Header, [2]string{"Idempotency-Key", key})
	return "long key"
}

func notUTF8(t *rapid.T, r *Request) string {
	i := at(t, r.Body)
	r.Body = r.Body[:i] + "\xff\xfe" + r.Body[i:]
	return "not UTF-8"
}
