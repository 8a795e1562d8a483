// Package contract reads and writes the JSON of the public API. The service, its Go client and its deliveries share it,
// so that they cannot differ. It imports the standard library only.
//
//	Field, Set, Object        the members that the API's objects have, and which of them a call takes
//	Reader                    reads requests and answers, strictly
//	Append…, Close            write them
//	ParseDuration, …Instant   durations and instants as texts
//	SyntaxError, FieldError   why a text or a member is refused
//
// # Reading
//
//   - A text is refused by the place where it stops being JSON (RFC 8259), a member by its name: a member that is not
//     known, is given twice, is of another call, or has a value of the wrong type.
//   - Strings are UTF-8. A lone surrogate is refused, since it has no UTF-8 form. Nesting ends at 1000.
//   - A value can be taken byte for byte, which is how payloads stay as they came.
//   - Reading neither recurses nor allocates by depth. Results alias the text.
//   - Answers are read by Known, which passes over members that it does not know: a later service may send more.
//
// # Writing
//
// An object is appended member by member, each with a comma in front; Close then puts the brace in place of the first
// comma. Durations are written in the shortest form that is read again ("10m", "7d"), instants in milliseconds with Z.
//
// # Why not
//
//   - encoding/json: it takes members given twice and in another case, replaces bytes that are not UTF-8, and drops the
//     spaces of a payload.
//   - github.com/go-json-experiment/json/jsontext (v1.27.2): it is strict enough, but each batch line costs 45 % more
//     processor time, and one with a payload of 16 KiB 75 % more. The throughput of batches is a promise. It also has a
//     depth of its own, and places in bytes where the API's errors count characters.
//   - A map from names to fields: FieldOf is called for every member of every line, and takes about half the time.
//
// The figures are of BenchmarkParseLine in package httpapi: processor time a line, medians of ten turns on one core of
// an AMD EPYC, with one decoder that was reset for each line.
//
//	line                      Reader     jsontext
//	payload of 200 bytes      0.65 µs    0.94 µs
//	the same, with a key      0.85 µs    1.22 µs
//	payload of 16 KiB         5.0 µs     8.7 µs
package contract
